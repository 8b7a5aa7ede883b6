"""Matching's addresses, under /t/<slug>/statements/. Whatever changes something is posted."""

from django.urls import URLPattern, path

from statements.matching import views

urlpatterns: list[URLPattern] = [
    path("<int:statement_id>/complete/", views.complete, name="statement-complete"),
    path("period/<int:receiver_id>/", views.period, name="statement-period"),
    path("period/<int:receiver_id>/differences.csv", views.period_file, name="statement-period-file"),
    path("lines/<int:line_id>/", views.line, name="statement-line"),
    path("lines/<int:line_id>/match/", views.match, name="statement-line-match"),
    path(
        "lines/<int:line_id>/matches/<int:match_id>/unmatch/",
        views.unmatch_line,
        name="statement-line-unmatch",
    ),
    path("lines/<int:line_id>/take-back/", views.take_back, name="statement-line-take-back"),
    path("matching/<int:receiver_id>/", views.receiver, name="matching"),
    path("matching/<int:receiver_id>/walk/", views.walk, name="matching-walk"),
]
