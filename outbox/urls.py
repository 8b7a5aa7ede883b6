"""Addresses of the pages of notifications, under /t/<slug>/notifications/."""

from django.urls import URLPattern, path

from outbox import views

urlpatterns: list[URLPattern] = [
    path("", views.notifications, name="notifications"),
    path("<int:message_id>/", views.message, name="notification"),
    path("<int:message_id>/again/", views.again, name="notification-again"),
    path("endpoints/add/", views.add, name="endpoint-add"),
    path("endpoints/<int:endpoint_id>/", views.change, name="endpoint-change"),
    path("endpoints/<int:endpoint_id>/disable/", views.disable, name="endpoint-disable"),
    path("endpoints/<int:endpoint_id>/enable/", views.enable, name="endpoint-enable"),
    path("endpoints/<int:endpoint_id>/test/", views.test, name="endpoint-test"),
]
