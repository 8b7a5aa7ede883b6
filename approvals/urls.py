"""The room's addresses, under /t/<slug>/approvals/. A decision is a noun that is posted."""

from django.urls import URLPattern, path

from approvals import blocked, looking_back, views
from approvals.bulk import views as bulk

urlpatterns: list[URLPattern] = [
    path("", views.approvals, name="approvals"),
    path("mine/", looking_back.mine, name="approval-mine"),
    path("figures/", looking_back.figures, name="approval-figures"),
    path("bulk/", bulk.choose, name="approval-choose"),
    path("bulk/<int:selection_id>/", bulk.bulk, name="approval-bulk"),
    path("bulk/<int:selection_id>/decision/", bulk.decide, name="approval-bulk-decision"),
    path("bulk/<int:selection_id>/go-on/", bulk.go_on, name="approval-bulk-go-on"),
    path("blocks/", blocked.blocks, name="blocks"),
    path("blocks/<int:block_id>/lift/", blocked.lift, name="block-lift"),
    path("<int:proposal_id>/", views.approval, name="approval"),
    path("<int:proposal_id>/signed.json", views.signed, name="approval-signed"),
    path("<int:proposal_id>/decision/", views.decision, name="decision"),
    path("<int:proposal_id>/reject/", views.reject, name="approval-reject"),
    path("<int:proposal_id>/changes/", views.request_changes, name="approval-changes"),
    path("<int:proposal_id>/withdraw/", views.withdraw, name="approval-withdraw"),
    path("<int:proposal_id>/remind/", views.remind, name="approval-remind"),
    path("<int:proposal_id>/unsign/", views.unsign, name="approval-unsign"),
    path("decisions/<int:decision_id>/proof/", views.proof, name="decision-proof"),
    path("<int:proposal_id>/again/", views.propose_again, name="approval-again"),
]
