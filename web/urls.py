"""Pages of the look itself, under DEBUG only."""

from django.conf import settings
from django.urls import URLPattern, path

from web import views

urlpatterns: list[URLPattern] = (
    [path("styleguide/", views.styleguide, name="styleguide")] if settings.DEBUG else []
)
