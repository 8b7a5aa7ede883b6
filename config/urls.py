"""Addresses: sign-in, what is public, and one tree a tenant under /t/<slug>/."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from console import health

urlpatterns = [
    path("sign-in/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("healthz", health.healthz, name="healthz"),
    path("healthz/work", health.work, name="healthz-work"),
    path("", include("web.urls")),
    path("", include("api.urls")),
    path("t/<slug:slug>/approvals/", include("approvals.urls")),
    path("t/<slug:slug>/cases/", include("reconciliation.urls")),
    path("", include("console.urls")),
]
handler400 = "access.doors.bad_request"
handler500 = "api.problems.server_error"
