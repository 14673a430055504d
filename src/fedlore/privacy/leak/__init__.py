"""What a curious coordinator reads from uploads, and how good a guess that is."""
