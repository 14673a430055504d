"""What the second lore was developed with: development seeds, settings tried, figures found."""
