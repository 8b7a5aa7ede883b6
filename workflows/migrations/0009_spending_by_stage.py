"""Sums of a job go by its stages too. They are made from the attempts, so they are counted anew from the first one."""

from django.db import migrations, models

import access.tenancy
import django.db.models.deletion


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0008_files'),
    ]

    operations = [
        migrations.RunSQL(
            "DELETE FROM workflows_jobspending; DELETE FROM workflows_spending; DELETE FROM workflows_spendingreview;"
            " UPDATE workflows_costbook SET counted_up_to = 0",
            migrations.RunSQL.noop,
        ),
        migrations.RemoveConstraint(model_name='jobspending', name='one_sum_a_job_and_hour'),
        migrations.AddField(
            model_name='jobspending',
            name='attempts',
            field=models.BigIntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='jobspending',
            name='stage',
            field=access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, default=0, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.stage'),
            preserve_default=False,
        ),
        migrations.AddConstraint(
            model_name='jobspending',
            constraint=models.UniqueConstraint(fields=('job', 'stage', 'day', 'hour', 'route', 'gave_result'), name='one_sum_a_stage_and_hour'),
        ),
    ]
