"""What the commands of this application say and show."""
