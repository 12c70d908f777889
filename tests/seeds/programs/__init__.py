"""Programs of users that the rows look at."""
