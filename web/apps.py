"""What every screen shares: the look, the words for states and times, and how fragments are answered."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "web"
    verbose_name = "Counterfoil on the web"
