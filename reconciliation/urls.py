"""The room's addresses, under /t/<slug>/cases/. Whatever changes something is posted."""

from django.urls import URLPattern, path

from reconciliation import viewing_views as viewing
from reconciliation import views
from reconciliation.asking import ANSWERS, ASKS
from reconciliation.bulk import views as bulk
from reconciliation.due_views import due_times
from reconciliation.incidents import views as incidents
from reconciliation.unclaimed import views as unclaimed

urlpatterns: list[URLPattern] = [
    path("", views.cases, name="cases"),
    path("bulk/", bulk.bulks, name="bulks"),
    path("bulk/<int:bulk_id>/", bulk.bulk, name="bulk"),
    path("bulk/<int:bulk_id>/confirm/", bulk.confirm, name="bulk-confirm"),
    path("bulk/<int:bulk_id>/stop/", bulk.stop, name="bulk-stop"),
    path("views/", viewing.saved_views, name="saved-views"),
    path("views/<int:view_id>/", viewing.change, name="view-change"),
    path("views/<int:view_id>/delete/", viewing.delete, name="view-delete"),
    path("figures/", views.figures_page, name="case-figures"),
    path("due-times/", due_times, name="due-times"),
    path("incidents/", incidents.incidents, name="incidents"),
    path("incidents/<int:incident_id>/", incidents.incident, name="incident"),
    path("<int:case_id>/", views.case, name="case"),
    path("<int:case_id>/look-up/", views.look_up, name="case-look-up"),
    path("<int:case_id>/evidence/<int:evidence_id>/file/", views.evidence_file, name="evidence-file"),
    path("<int:case_id>/set-aside/", unclaimed.set_aside, name="case-set-aside"),
    path("<int:case_id>/take/", views.take, name="case-take"),
    *(path(f"<int:case_id>/{ask.path}/", views.asks(ask), name=ask.url_name) for ask in ASKS),
    *(
        path(f"<int:case_id>/requests/<int:request_id>/{ask.path}/", views.asks(ask), name=ask.url_name)
        for ask in ANSWERS
    ),
]
