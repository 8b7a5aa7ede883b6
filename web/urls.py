"""How a person reads, and, under DEBUG, the pages of the look itself."""

from django.conf import settings
from django.urls import URLPattern, path

from web import views

urlpatterns: list[URLPattern] = [path("reads-as/", views.reads_as, name="reads-as")]
if settings.DEBUG:
    urlpatterns.append(path("styleguide/", views.styleguide, name="styleguide"))
