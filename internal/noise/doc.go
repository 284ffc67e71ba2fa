// Package noise generates the correlated noise that training with a strategy C adds: row t of ζ σ
// C⁻¹ Z, for any range of coordinates, step by step. It knows no Beam and no network.
//
// A value is a function of (key, step, coordinate) and of the public coefficients in the [Recipe].
// It does not depend on how the coordinates are split into shards, on the order of the work, on the
// machine, or on whether its vector instructions are used: the same bytes come out. So a shard can
// be made anywhere, and made again.
//
// # Guarantee
//
// The certificate is for the Gaussian mechanism C x + ζ σ Z, x_t being the sum of step t's
// gradients, each of norm at most ζ. With y = ζ σ C⁻¹ Z, x + y is a post-processing of it. The
// trainer releases x_t + round_g(y_t), round_g being the rounding to the nearest multiple of
// the grid g. Where every coordinate of x_t is a multiple of g, that is round_g(x_t + y_t): a
// post-processing again, with the same σ and the same ζ. It is so for every y_t with no
// coordinate halfway between two multiples, which for exact normals has probability one. The
// duties of a trainer:
//
//   - clip each gradient to ζ, then round each of its coordinates toward zero to a multiple of g.
//     No coordinate grows in absolute value, so no p-norm does: the sensitivity is ζ,
//     [Recipe.Sensitivity], whatever the number of coordinates;
//   - sum the gradients of a step without rounding: every partial sum is within 2²⁴ g in
//     float32, 2⁵³ g in float64. Beyond that, or where a gradient is not a multiple of g, the
//     computed sum depends on the order of its terms, and no longer differs by at most ζ
//     between neighbours;
//   - add the noise to the finished sum, once. This last addition may round: its result is a
//     function of the exact sum of its operands.
//
// This closes the channel by which the low bits of a floating point sum tell x apart from its
// neighbour (Mironov, On significance of the least significant bits for differential privacy,
// CCS 2012): every released value is a multiple of g, whatever the gradients are. A value
// beyond the range of its type stops the noise ([ErrRange]); that depends on y alone.
//
// With [NoGrid] nothing is rounded, and this channel is open: the claim is then one for real
// numbers only.
//
// Not proven: that replacing Z by its computed values costs nothing. A word is a pseudorandom one
// (AES-128 or ChaCha12), and a normal deviates from the exact Box–Muller value of its words by less
// than 1e-15 of its pair's radius, to which each operation of the correlation adds 2⁻⁵³ of its
// result. So before rounding a value is off by about 1e-15 of its size, and after it by one step of
// the grid: for less than one value in 1e8 on the default grid of float32, one in 1e3 on the grid
// of float64. Halves are among them. The error depends on y alone, never on gradients. No bound in
// ε or δ is claimed for it.
//
// Noise is secret, and serves one training run: two training runs with the same noise reveal the
// difference of their gradients. So the key of a white row has random bytes that are drawn for its
// step when a training begins or goes on.
//
// # Words
//
// A recipe names the source of its words, [AES128] or [ChaCha12]. The noise key K is
// HKDF-SHA256(root, salt = run id ‖ SHA-256 of the parameters, info = "noise"), 32 bytes; its
// sub-keys are HKDF-SHA256(K, no salt, info = "normals") and HKDF-SHA256(K, no salt, info =
// "tails").
//
// With AES-128, the first 16 bytes of a sub-key are the key (package stream, Bulk). The block of
// step t (0-based) and pair c is AES(t ‖ c), both fields 64 bits, big endian; it is read as two
// 64-bit words, little endian. With ChaCha12, all of a sub-key is the key (package stream, ChaCha),
// and the words of pair c are two of the eight of its 64-byte block ⌊c/4⌋ of step t. Pair c gives
// coordinates 2c and 2c+1.
//
// # Arithmetic
//
// All operations are IEEE double precision, rounded to nearest. With AES-128, fma rounds a
// product and the sum that it is added to once. With ChaCha12 it rounds the product first, and
// then the sum: an accelerator, with a compiler that may fuse or not, can be made to do that,
// so that a program on it makes the same bits. Python's readers do (docs/large-models.md).
//
// # Normals
//
// Let w0, w1 be the words of (t, c) under "normals".
//
//   - U: where w0 ≥ 2⁵², U = float64(w0)·2⁻⁶⁴. Else, once in 4096 pairs, w0 is followed by the
//     words of the pairs c + r 2⁴⁸ of the step, r = 0, 1, …, under "tails"; in the string of bits
//     of w0 and these words, most significant first, e zeros come before the first one, and X is
//     the 64 bits from that one on: U = float64(X)·2⁻⁶⁴⁻ᵉ. So U has its full precision however
//     small it is, and the tail of a normal has no end. With ChaCha12, 2⁴⁰ takes the place of 2⁵²,
//     so that a program without branches rarely needs the tail: from 2⁻²⁴ on U is a multiple of
//     2⁻⁶⁴, in relative steps of 2⁻⁴⁰ or less, which move a radius by 1.6e-13 at most.
//   - U = 2ᵏ m, m in [√½, √2): s = (m-1)/(m+1), q = s², -2 ln U = fma(-k, 2 ln 2, -fma(s q, M(q), 4
//     s)), and R its square root.
//   - x = ((w1 >> 12) + ½)·2⁻⁵², y = x²: sn = x S(y), cs = C(y) are the sine and cosine of π x
//     / 4. Where bit 0 of w1 is set they change places; bit 1 is the sign of cs and bit 2 the
//     sign of sn, after the exchange.
//   - Coordinate 2c has the normal R·cs, coordinate 2c+1 has R·sn.
//
// M, S and C are polynomials of degree 6 by Horner's rule in fma; their errors are below 7e-16,
// 1e-16 and 2e-16 on the ranges used. Their coefficients are in normal.go.
//
// # Correlation
//
// The coefficients of the recipe give u_t, z_t being the normals of one coordinate and zero before
// step 0:
//
//   - feedback (banded C): u_t = gain_t z_t, then fma(f_{t,j}, u_{t-j}, u_t) for j = bands-1 down
//     to 1, where f_{t,j} = -C[t][t-j]/C[t][t] and gain_t = 1/C[t][t];
//   - filter (banded C⁻¹): u_t = 0, then fma(h_j, z_{t-j}, u_t) for j = bands-1 down to 0;
//   - buffers (BLT): u_t = z_t, then for each buffer m in order fma(-scale_m, s_m, u_t); after that
//     s_m = fma(decay_m, s_m, u_t).
//
// The value is u_t·((σ·ζ)·D_t), D_t being the row's scale of a normalised strategy, rounded to the
// nearest multiple of g, ties to even multiples. Without a grid it is that double, and in float32
// the float32 next to it, ties to even. Every zero is positive.
//
// Fused operations are [math.FMA]: where a processor has none, the bits are the same and the noise
// is slow. Where it has AVX2 and FMA, or AVX-512, vector instructions do the same operations
// in each coordinate.
package noise
