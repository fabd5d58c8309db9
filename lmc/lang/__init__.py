"""Module names of the reference frontend, so that imports from them need one word changed."""
