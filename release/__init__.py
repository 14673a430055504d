"""make release-check: is what we would publish what we say it is?"""
