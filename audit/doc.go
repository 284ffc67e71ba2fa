// Package audit attacks a training: it tries to tell, from the released sums, whether somebody
// took part, and compares its success with the certificate's bound.
//
// The adversary is the one of the certificate in the scalar worst case. They see C x + σ z, which
// is C times the noisy sums that a trainer releases, know everything but the participations x and
// the noise z, and decide by the true likelihood ratio f(y) = P(y)/Q(y), P being the distribution
// with the person and Q that without. So an audit is a test of the whole chain, from keys to sums:
// its findings cannot be a fault of a proof. It shows faults and never their absence: a
// certificate is proven, an audit that finds nothing proves nothing.
//
// Likelihood ratios are computed here from the definition of each scheme alone, by sums over
// participation patterns or a plain recursion, and share no code with package montecarlo: a
// fault of either shows as a difference. Steps are 0-based.
//
// Two tests judge the observations:
//
//   - [NewBound]: a lower confidence bound on ε, by Clopper and Pearson's bounds of the rates
//     of one fixed test in each direction. Above the certificate's ε something is wrong with
//     the privacy.
//   - [Attack.Judge]: do the scores of the observations have the distribution that the
//     certificate's mechanism gives them? A chain that differs need not be less private, but it
//     is not the one that was certified.
//
// A third, [OneRun], needs a single run in which some canaries took part and some did not.
//
// Stability: may change with every release.
package audit
