"""The coding programs that a session can run: what each is given, and how its questions are read. No effects here."""
