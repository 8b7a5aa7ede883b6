"""What people do to groups, to their own authority and to their absences: each function is one transaction."""
