"""How alike two sets of vectors of the same rows are: CKA, SVCCA, RSA and orthogonal Procrustes."""
