from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reconciliation", "0013_restored_from_backup"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="case",
            index=models.Index(
                condition=models.Q(("kind", "key mismatch"), ("resolved_at__isnull", True)),
                fields=["tenant", "receiver"],
                name="case_key_mismatch",
            ),
        ),
    ]
