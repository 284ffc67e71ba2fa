// Package accounting computes how private a training run is, and proves it.
//
// The guarantee is (ε,δ)-differential privacy under zero-out adjacency: the gradients of one
// example, or of all examples of one owner, are replaced by zero. The adversary sees every noisy
// gradient sum, knows the other examples and their participations, and chooses gradients of norm at
// most the clip norm adaptively. The accounting always covers both directions of the divergence.
//
// Closed forms ([Gaussian]) and privacy loss distributions (package pld) are proofs by computation.
// Where only sampling is exact, the protocol of estimate–verify–release (arXiv 2602.09338, Appendix
// A; F5) turns samples into a certificate. Estimates choose the candidates, a [Protocol] is fixed
// before the first sample of the verifier, and its failure probability is part of δ.
//
// Labels of formulas (F5, F3.2, …) refer to docs/formulas.md, which has their sources and
// proofs.
package accounting
