from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "access"

    def ready(self) -> None:
        from django.conf import settings
        from django.core.checks import register

        from access import belonging, checks, copied_sql, database_objects, groups_sql, tenant_journal
        from web import redaction

        register(checks.internal_receivers)
        redaction.remember(settings.SECRET_KEY)
        redaction.remember(str(settings.DATABASES["default"].get("PASSWORD") or ""))
        database_objects.register("access.copied", copied_sql.statements)
        database_objects.register("access", tenant_journal.statements)
        database_objects.register("access.belonging", belonging.statements)
        database_objects.register("access.groups", groups_sql.statements)
