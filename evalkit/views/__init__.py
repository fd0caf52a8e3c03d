"""What notebooks show as HTML: styled tables, banners, and the evidence of each case."""
