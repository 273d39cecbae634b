"""What single attention heads do: roles, shapes of their maps, likeness to each other, trees."""
