"""Wiring only: which apps, which database, which limits. Every value that an operator may set is read here."""

import os
from pathlib import Path
from typing import Any

from csp.constants import SELF

from config import database, mail
from config.secret import secret_key, signing_key

BASE_DIR = Path(__file__).resolve().parent.parent


def _flag(name: str, default: str = "") -> bool:
    return os.environ.get(name, default).lower() in {"1", "true", "yes", "on"}


SECRET_KEY = secret_key()
COUNTERFOIL_SIGNING_KEY = signing_key()
DEBUG = _flag("COUNTERFOIL_DEBUG")
ALLOWED_HOSTS = os.environ.get("COUNTERFOIL_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("COUNTERFOIL_ORIGINS", "").split(",") if o]

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "access",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "template_partials",
    "csp",
    "web",
    "outbox",
    "workflows",
    "approvals",
    "dispatch",
    "statements",
    "reconciliation",
    "api",
    "console",
    "examples",
    "django_q",
]

MIDDLEWARE = [
    "console.health.probes",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "web.every_page.keep_no_copy",
    "web.every_page.explain_not_allowed",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "web.every_page.SignInMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "web.reading.ReaderMiddleware",
    "web.addresses.refuse_nul",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.console",
            ],
            "builtins": ["web.templatetags.counterfoil", "web.templatetags.seen"],
        },
    },
]

# --- the database -----------------------------------------------------------------------------------------------
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **database.django_parameters(),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "ATOMIC_REQUESTS": False,
    },
}
DATABASES["default"].setdefault("OPTIONS", {})["assume_role"] = "counterfoil_app"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- workers ----------------------------------------------------------------------------------------------------
# A q2 task is a doorbell; the engine itself runs beside it in every worker process (workflows/engine).
Q_CLUSTER: dict[str, Any] = {
    "name": "counterfoil",
    "label": "Workers",
    "workers": int(os.environ.get("COUNTERFOIL_WORKERS", "2")),
    "recycle": 1_000_000_000,
    "timeout": 30,
    "retry": 120,
    "ack_failures": True,
    "max_attempts": 1,
    "orm": "default",
    "poll": 1,
    "catch_up": False,
    "save_limit": 50,
    "queue_limit": 10,
}
COUNTERFOIL_SLOTS = int(os.environ.get("COUNTERFOIL_SLOTS", "8"))
COUNTERFOIL_WORKER_MEMORY_MB = int(os.environ.get("COUNTERFOIL_WORKER_MEMORY_MB", "2048"))
COUNTERFOIL_LEASE_SECONDS = float(os.environ.get("COUNTERFOIL_LEASE_SECONDS", "30"))
COUNTERFOIL_REVISION_GRACE_SECONDS = float(os.environ.get("COUNTERFOIL_REVISION_GRACE_SECONDS", "60"))
"""How long no worker may have had a job's revision before the job is held, with a case."""
COUNTERFOIL_WORKFLOWS = [
    w.strip()
    for w in os.environ.get(
        "COUNTERFOIL_WORKFLOWS",
        "examples.vendor_onboarding,examples.vendor_restoring,examples.expense_policy,examples.enrichment,examples.documents",
    ).split(",")
    if w.strip()
]
COUNTERFOIL_UNUSED_EVENTS = int(os.environ.get("COUNTERFOIL_UNUSED_EVENTS", "1000"))
"""Events that one source may have sent in vain before no more are taken that nobody waits for."""
COUNTERFOIL_COST_CURRENCY = os.environ.get("COUNTERFOIL_COST_CURRENCY", "USD")
COUNTERFOIL_PRICES = os.environ.get(
    "COUNTERFOIL_PRICES",
    str(BASE_DIR / "examples" / "prices.toml") if COUNTERFOIL_COST_CURRENCY == "USD" else "",
)
COUNTERFOIL_ERP_URL = os.environ.get("COUNTERFOIL_ERP_URL", "http://127.0.0.1:8101")
COUNTERFOIL_BUREAU_URL = os.environ.get("COUNTERFOIL_BUREAU_URL", "http://127.0.0.1:8103")
COUNTERFOIL_INDEX_URL = os.environ.get("COUNTERFOIL_INDEX_URL", "http://127.0.0.1:8104")
COUNTERFOIL_POST_URL = os.environ.get("COUNTERFOIL_POST_URL", "http://127.0.0.1:8105")
COUNTERFOIL_PROVIDER_URL = os.environ.get("COUNTERFOIL_PROVIDER_URL", "http://127.0.0.1:8102")
COUNTERFOIL_INTERNAL_RECEIVERS = [
    h.strip() for h in os.environ.get("COUNTERFOIL_INTERNAL_RECEIVERS", "").split(",") if h.strip()
]
"""Receivers and endpoints that may stand inside: organisation/receiver=host, or =10.20.0.0/16 for a network."""

# --- telling people and systems outside -----------------------------------------------------------------------------
COUNTERFOIL_URL = os.environ.get("COUNTERFOIL_URL", "http://127.0.0.1:8000").rstrip("/")
"""Where people reach the console: what links in messages begin with."""
COUNTERFOIL_OUTBOX_HOURS = float(os.environ.get("COUNTERFOIL_OUTBOX_HOURS", "72"))
"""How long a message is tried before it is given up."""
COUNTERFOIL_OUTBOX_KEEP_DAYS = max(1.0, float(os.environ.get("COUNTERFOIL_OUTBOX_KEEP_DAYS", "30")))
"""How long a message is kept after it was delivered. The database refuses less than a day."""
EMAIL_HOST = os.environ.get("COUNTERFOIL_EMAIL_HOST", "")
EMAIL_USE_TLS, EMAIL_USE_SSL, EMAIL_PORT = mail.security(
    os.environ.get("COUNTERFOIL_EMAIL_TLS", "starttls"), os.environ.get("COUNTERFOIL_EMAIL_PORT", "")
)
EMAIL_HOST_USER = os.environ.get("COUNTERFOIL_EMAIL_USER", "")
COUNTERFOIL_EMAIL_PASSWORD_FILE = os.environ.get("COUNTERFOIL_EMAIL_PASSWORD_FILE", "")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = os.environ.get("COUNTERFOIL_EMAIL_FROM", "counterfoil@localhost")

# --- people -----------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "access.Person"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _flag("COUNTERFOIL_HTTPS")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _flag("COUNTERFOIL_HTTPS") else None
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "form-action": [SELF],
    }
}

# --- input limits -----------------------------------------------------------------------------------------------
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
"""Bytes of one request body, files left out; a larger one answers 413."""

DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000
"""The form of the largest policy has some 1,600."""

COUNTERFOIL_LARGEST_FILE = int(os.environ.get("COUNTERFOIL_LARGEST_FILE", "20000000"))
COUNTERFOIL_LARGEST_STATEMENT = int(os.environ.get("COUNTERFOIL_LARGEST_STATEMENT", "300000000"))
FILE_UPLOAD_HANDLERS = [
    "web.uploads.WithinLimit",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]

# --- the rest ---------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
_TESTING = _flag("COUNTERFOIL_TESTING")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG or _TESTING
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "web.redaction.HidingFormatter",
            "format": "{asctime} {levelname} {name} {message}",
            "style": "{",
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": os.environ.get("COUNTERFOIL_LOG_LEVEL", "INFO")},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "django_q": {"level": "WARNING"},
    },
}
