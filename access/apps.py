from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "access"

    def ready(self) -> None:
        from access import belonging, database_objects, tenant_journal

        database_objects.register("access", tenant_journal.statements)
        database_objects.register("access.belonging", belonging.statements)
