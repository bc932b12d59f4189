"""Operations on what is known."""
