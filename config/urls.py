"""Addresses: sign-in, what is public, and one tree a tenant under /t/<slug>/. Probes are answered before (console/health.py)."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

urlpatterns = [
    path("sign-in/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("", include("web.urls")),
    path("", include("api.urls")),
    path("t/<slug:slug>/approvals/", include("approvals.urls")),
    path("t/<slug:slug>/", include("approvals.governing.urls")),
    path("t/<slug:slug>/cases/", include("reconciliation.urls")),
    path("t/<slug:slug>/statements/", include("statements.urls")),
    path("t/<slug:slug>/notifications/", include("outbox.urls")),
    path("", include("console.urls")),
]
handler400 = "api.problems.bad_request"
handler404 = "api.problems.not_found"
handler500 = "api.problems.server_error"
