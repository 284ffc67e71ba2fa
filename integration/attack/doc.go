// Package attack attacks a training: it tries to tell from the released sums whether somebody took
// part, and compares its success with the certificate's bound.
//
// The adversary is the certificate's, in the scalar worst case. They see C x + σ z, which is C
// times the noisy sums that a trainer releases. They know everything but the participations x and
// the noise z, and decide by the true likelihood ratio f(y) = P(y)/Q(y), where P is the
// distribution with the person and Q the one without. An attack thus tests the whole chain, from
// keys to sums, and its findings do not rest on the proof. It can show faults, never their absence.
//
// Likelihood ratios are computed from the definition of each scheme alone, by sums over
// participation patterns or by a plain recursion. This code shares nothing with package montecarlo,
// so that a fault of either shows as a difference. Steps are 0-based.
//
// Two tests judge the observations:
//
//   - [NewBound]: a lower confidence bound on ε, by Clopper and Pearson's bounds of the rates
//     of one fixed test in each direction. A bound above the certificate's ε means that the
//     privacy is broken.
//   - [Attack.Judge]: do the scores have the distribution that the certificate's mechanism
//     gives them? A chain that differs need not be less private, but it is not the one that
//     was certified.
package attack
