"""Operations for operators."""
