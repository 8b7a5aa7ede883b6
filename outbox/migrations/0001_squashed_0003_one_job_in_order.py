import access.tenancy
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.comparison
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('outbox', '0001_initial'), ('outbox', '0002_delivered_messages_by_age'), ('outbox', '0003_one_job_in_order')]

    initial = True

    dependencies = [
        ('access', '0005_restored_tenants'),
        ('access', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('url', models.CharField(max_length=2000)),
                ('secret_reference', models.CharField(max_length=200)),
                ('previous_reference', models.CharField(blank=True, default='', max_length=200)),
                ('previous_until', models.DateTimeField(blank=True, null=True)),
                ('events', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), default=list, size=None)),
                ('created_at', models.DateTimeField()),
                ('disabled_at', models.DateTimeField(blank=True, null=True)),
                ('disabled_by', models.CharField(blank=True, default='', max_length=200)),
                ('disabled_reason', models.CharField(blank=True, default='', max_length=1000)),
                ('lagging_since', models.DateTimeField(blank=True, null=True)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'name'), name='one_endpoint_a_name'), models.CheckConstraint(condition=models.Q(models.Q(('disabled_at__isnull', True), ('disabled_by', ''), ('disabled_reason', '')), models.Q(('disabled_at__isnull', False), models.Q(('disabled_by', ''), _negated=True), models.Q(('disabled_reason', ''), _negated=True)), _connector='OR'), name='a_disabled_endpoint_says_why'), models.CheckConstraint(condition=models.Q(models.Q(('previous_reference', ''), ('previous_until__isnull', True)), models.Q(('previous_until__isnull', False), models.Q(('previous_reference', ''), _negated=True)), _connector='OR'), name='an_endpoints_previous_secret_ends')],
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, unique=True)),
                ('kind', models.CharField(choices=[('e-mail', 'Email'), ('webhook', 'Webhook')], max_length=10)),
                ('event', models.CharField(max_length=60)),
                ('key', models.CharField(max_length=200)),
                ('subject', models.JSONField(default=dict)),
                ('job_id', models.BigIntegerField(blank=True, null=True)),
                ('payload', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('attempts', models.IntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(blank=True, null=True)),
                ('gives_up_at', models.DateTimeField()),
                ('claim_no', models.IntegerField(default=0)),
                ('claimed_by', models.CharField(blank=True, default='', max_length=200)),
                ('delivered_at', models.DateTimeField(blank=True, null=True)),
                ('given_up_at', models.DateTimeField(blank=True, null=True)),
                ('reported_at', models.DateTimeField(blank=True, null=True)),
                ('last_error', models.CharField(blank=True, default='', max_length=500)),
                ('endpoint', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='outbox.endpoint')),
                ('person', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['tenant', '-id'], name='message_by_age'), models.Index(condition=models.Q(('kind', 'webhook'), ('next_attempt_at__isnull', False)), fields=['endpoint', 'next_attempt_at', 'id'], name='message_due_to_endpoint'), models.Index(condition=models.Q(('kind', 'e-mail'), ('next_attempt_at__isnull', False)), fields=['tenant', 'next_attempt_at', 'id'], name='message_due_by_mail'), models.Index(condition=models.Q(('job_id__isnull', False), ('next_attempt_at__isnull', False)), fields=['job_id', 'endpoint', 'person', 'id'], name='message_waiting_of_job'), models.Index(condition=models.Q(('claimed_by', ''), _negated=True), fields=['endpoint'], name='message_claimed'), models.Index(condition=models.Q(('kind', 'webhook')), fields=['endpoint', '-id'], name='message_of_endpoint'), models.Index(condition=models.Q(('next_attempt_at__isnull', False)), fields=['tenant', '-id'], name='message_waiting'), models.Index(condition=models.Q(('given_up_at__isnull', False)), fields=['tenant', '-id'], name='message_given_up'), models.Index(condition=models.Q(('delivered_at__isnull', False)), fields=['tenant', 'delivered_at'], name='message_delivered'), models.Index(condition=models.Q(('given_up_at__isnull', False), ('reported_at__isnull', True)), fields=['id'], name='message_to_report')],
                'constraints': [models.UniqueConstraint(models.F('tenant'), models.F('key'), django.db.models.functions.comparison.Coalesce('person', 0), django.db.models.functions.comparison.Coalesce('endpoint', 0), name='one_message_a_recipient'), models.CheckConstraint(condition=models.Q(models.Q(('endpoint__isnull', True), ('kind', 'e-mail'), ('person__isnull', False)), models.Q(('endpoint__isnull', False), ('kind', 'webhook'), ('person__isnull', True)), _connector='OR'), name='a_message_has_one_recipient'), models.CheckConstraint(condition=models.Q(models.Q(('delivered_at__isnull', True), ('given_up_at__isnull', True), ('next_attempt_at__isnull', False)), models.Q(('claimed_by', ''), ('delivered_at__isnull', False), ('given_up_at__isnull', True), ('next_attempt_at__isnull', True)), models.Q(('claimed_by', ''), ('delivered_at__isnull', True), ('given_up_at__isnull', False), ('next_attempt_at__isnull', True)), _connector='OR'), name='a_message_is_due_or_at_its_end'), models.CheckConstraint(condition=models.Q(('reported_at__isnull', True), ('given_up_at__isnull', False), _connector='OR'), name='only_what_was_given_up_is_reported')],
            },
        ),
        migrations.CreateModel(
            name='Try',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('claim_no', models.IntegerField()),
                ('outcome', models.CharField(choices=[('delivered', 'Delivered'), ('failed', 'Failed'), ('refused', 'Refused'), ('stale', 'Stale')], max_length=10)),
                ('said', models.CharField(blank=True, default='', max_length=500)),
                ('dispatcher', models.CharField(max_length=200)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField()),
                ('message', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='outbox.message')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('message', 'claim_no'), name='one_try_a_claim')],
            },
        ),
    ]
