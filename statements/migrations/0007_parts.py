from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('statements', '0006_booked_differences'),
    ]

    operations = [
        migrations.AddField(
            model_name='match',
            name='partial',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddConstraint(
            model_name='match',
            constraint=models.CheckConstraint(condition=models.Q(('partial', False), models.Q(('line_place', 0), ('made_by__isnull', False), ('within_tolerance', False), models.Q(('together', ''), _negated=True)), _connector='OR'), name='a_part_is_a_persons_word_and_exact'),
        ),
    ]
