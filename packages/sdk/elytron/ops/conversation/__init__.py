"""Operations of a conversation."""
