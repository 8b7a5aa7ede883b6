"""The room's addresses, under /t/<slug>/statements/. Whatever changes something is posted."""

from django.urls import URLPattern, path

from statements import views
from statements.matching.urls import urlpatterns as matching

urlpatterns: list[URLPattern] = [
    path("", views.statements, name="statements"),
    path("upload/", views.upload, name="statement-upload"),
    path("<int:statement_id>/", views.statement, name="statement"),
    path("<int:statement_id>/map/", views.mapping, name="statement-map"),
    path("<int:statement_id>/read/", views.read_again, name="statement-read"),
    path("<int:statement_id>/apply/", views.apply, name="statement-apply"),
    path("<int:statement_id>/discard/", views.discard, name="statement-discard"),
    path("<int:statement_id>/settle/", views.settle, name="statement-settle"),
    path("<int:statement_id>/errors.csv", views.errors_file, name="statement-errors-file"),
    path("<int:statement_id>/lines.csv", views.lines_file, name="statement-lines-file"),
    path("<int:statement_id>/file/", views.file, name="statement-file"),
    *matching,
]
