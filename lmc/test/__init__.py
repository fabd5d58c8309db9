"""Module names of the reference frontend's tests, so that imports need one word changed."""
