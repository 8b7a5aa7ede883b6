
import access.tenancy
import uuid

import django.contrib.postgres.functions
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('access', '0005_restored_tenants'),
        ('approvals', '0009_policies_end'),
        ('dispatch', '0005_amounts_of_operations'),
        ('workflows', '0015_steps_run_again'),
    ]

    operations = [
        migrations.CreateModel(
            name='Callback',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('message_id', models.CharField(max_length=200)),
                ('operation_key', models.CharField(blank=True, default='', max_length=100)),
                ('receipt_id', models.CharField(blank=True, default='', max_length=200)),
                ('finding', models.CharField(max_length=20)),
                ('summary', models.CharField(max_length=500)),
                ('body', models.TextField(blank=True, default='')),
                ('digest', models.CharField(max_length=64)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('received_at', models.DateTimeField()),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
            },
        ),
        migrations.AddField(
            model_name='receiver',
            name='public_id',
            field=models.UUIDField(default=uuid.uuid4, db_default=django.contrib.postgres.functions.RandomUUID(), editable=False, unique=True),
        ),
        migrations.AddIndex(
            model_name='operation',
            index=models.Index(condition=models.Q(('state__in', ['REFUSED', 'NOT_APPLIED', 'WITHDRAWN'])), fields=['operation_key'], name='operation_by_key'),
        ),
        migrations.AddIndex(
            model_name='operation',
            index=models.Index(condition=models.Q(('receipt_id', ''), _negated=True), fields=['receiver', 'receipt_id'], name='operation_by_receipt'),
        ),
        migrations.AddField(
            model_name='callback',
            name='operation',
            field=access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation'),
        ),
        migrations.AddField(
            model_name='callback',
            name='receiver',
            field=access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver'),
        ),
        migrations.AddField(
            model_name='callback',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant'),
        ),
        migrations.AddIndex(
            model_name='callback',
            index=models.Index(fields=['receiver', 'received_at', 'id'], name='callback_by_age'),
        ),
        migrations.AddIndex(
            model_name='callback',
            index=models.Index(condition=models.Q(('operation__isnull', True)), fields=['receiver', 'receipt_id', 'id'], name='callback_of_nothing'),
        ),
        migrations.AddConstraint(
            model_name='callback',
            constraint=models.UniqueConstraint(fields=('receiver', 'message_id'), name='one_callback_an_id'),
        ),
    ]
