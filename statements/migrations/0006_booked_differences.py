from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('statements', '0005_unclaimed_lines'),
    ]

    operations = [
        migrations.AddField(
            model_name='match',
            name='apart',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='match',
            name='apart_as',
            field=models.CharField(blank=True, choices=[('fee', 'Fee'), ('rounding', 'Rounding'), ('discount', 'Discount'), ('exchange rate', 'Exchange'), ('other', 'Other')], db_default='', default='', max_length=20),
        ),
        migrations.AddConstraint(
            model_name='match',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('apart', 0), ('apart_as', '')), models.Q(('apart_as__in', ['fee', 'rounding', 'discount', 'exchange rate', 'other']), ('within_tolerance', True), models.Q(('reason', ''), _negated=True)), _connector='OR'), name='a_difference_says_what_it_is_and_why'),
        ),
    ]
