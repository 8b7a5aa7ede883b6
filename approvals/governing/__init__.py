"""The pages on which an organisation writes the rules it works by: policies, groups, lent authority and absences."""
