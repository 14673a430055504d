"""The pages that are made from the source, and the site around them."""
