import access.tenancy
import django.contrib.auth.models
import django.contrib.auth.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('access', '0001_initial'), ('access', '0002_groups_and_delegations'), ('access', '0003_revoked_tenants'), ('access', '0004_groups_end'), ('access', '0005_restored_tenants')]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Group',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('end_by', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('end_reason', models.CharField(blank=True, db_default='', default='', max_length=1000)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('end_by', ''), ('end_reason', ''), ('ended_at__isnull', True)), models.Q(('ended_at__isnull', False), models.Q(('end_by', ''), _negated=True), models.Q(('end_reason', ''), _negated=True)), _connector='OR'), name='an_ended_group_says_why')],
            },
        ),
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(unique=True)),
                ('name', models.CharField(max_length=200)),
                ('time_zone', models.CharField(default='UTC', max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('revoke_reason', models.CharField(blank=True, db_default='', default='', max_length=1000)),
                ('restored_at', models.DateTimeField(blank=True, null=True)),
                ('known_until', models.DateTimeField(blank=True, null=True)),
                ('shut_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('shut_at__isnull', True), models.Q(('known_until__isnull', False), ('restored_at__isnull', False)), _connector='OR'), name='what_is_shut_was_restored')],
            },
        ),
        migrations.CreateModel(
            name='TenantEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sequence', models.BigIntegerField()),
                ('event', models.CharField(max_length=60)),
                ('actor_kind', models.CharField(max_length=20)),
                ('actor_id', models.BigIntegerField(default=0)),
                ('actor_name', models.CharField(max_length=200)),
                ('evidence', models.TextField(default='{}')),
                ('at', models.DateTimeField()),
                ('previous', models.BinaryField()),
                ('hash', models.BinaryField()),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
            },
        ),
        migrations.CreateModel(
            name='Person',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('username', models.CharField(error_messages={'unique': 'A user with that username already exists.'}, help_text='Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
                ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
                ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
                'abstract': False,
            },
            managers=[
                ('objects', django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name='Absence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('noted_at', models.DateTimeField()),
                ('noted_by', models.CharField(max_length=200)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='an_absence_ends_later')],
            },
        ),
        migrations.CreateModel(
            name='Delegation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('policies', models.TextField(blank=True, default='')),
                ('most_amount', models.DecimalField(blank=True, decimal_places=4, max_digits=20, null=True)),
                ('most_currency', models.CharField(blank=True, default='', max_length=3)),
                ('reason', models.CharField(max_length=1000)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('given_at', models.DateTimeField()),
                ('given_by', models.CharField(max_length=200)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_by', models.CharField(blank=True, default='', max_length=200)),
                ('giver', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('taker', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.CheckConstraint(condition=models.Q(('giver', models.F('taker')), _negated=True), name='nobody_delegates_to_themselves'), models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='a_delegation_ends_later'), models.CheckConstraint(condition=models.Q(models.Q(('most_amount__isnull', True), ('most_currency', '')), models.Q(('most_amount__gte', 0), models.Q(('most_currency', ''), _negated=True)), _connector='OR'), name='a_cap_has_its_currency'), models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='a_delegation_has_a_reason')],
            },
        ),
        migrations.CreateModel(
            name='GroupMember',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('began_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('group', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.group')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('group', 'person'), name='one_live_member_a_group')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('submitter', 'Submitter'), ('manager', 'Manager'), ('operator', 'Operator'), ('admin', 'Admin'), ('auditor', 'Auditor')], max_length=20)),
                ('began_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
            },
        ),
        migrations.CreateModel(
            name='PasswordEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session', models.CharField(max_length=64)),
                ('right', models.BooleanField()),
                ('at', models.DateTimeField()),
                ('person', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['person', 'at'], name='entry_of_person')],
            },
        ),
        migrations.CreateModel(
            name='TenantHead',
            fields=[
                ('tenant', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, serialize=False, to='access.tenant')),
                ('version', models.BigIntegerField(default=0)),
                ('head', models.BinaryField(default=b'')),
            ],
        ),
        migrations.AddField(
            model_name='membership',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant'),
        ),
        migrations.AddField(
            model_name='groupmember',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant'),
        ),
        migrations.AddField(
            model_name='group',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant'),
        ),
        migrations.AddField(
            model_name='delegation',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant'),
        ),
        migrations.AddField(
            model_name='absence',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant'),
        ),
        migrations.AddField(
            model_name='tenantentry',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('tenant', 'person', 'role'), name='one_live_membership_a_role'),
        ),
        migrations.AddConstraint(
            model_name='group',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('tenant', 'name'), name='one_group_a_name'),
        ),
        migrations.AddIndex(
            model_name='delegation',
            index=models.Index(condition=models.Q(('revoked_at__isnull', True)), fields=['tenant', 'ends_at'], name='delegation_in_force'),
        ),
        migrations.AddIndex(
            model_name='absence',
            index=models.Index(condition=models.Q(('ended_at__isnull', True)), fields=['tenant', 'person', 'ends_at'], name='absence_noted'),
        ),
        migrations.AddConstraint(
            model_name='tenantentry',
            constraint=models.UniqueConstraint(fields=('tenant', 'sequence'), name='one_entry_a_sequence'),
        ),
    ]
