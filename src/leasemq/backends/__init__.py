"""Where jobs live: one package per backend, strangers to one another."""
