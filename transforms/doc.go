// Package transforms makes the data of differentially private training with correlated noise, as
// Beam transforms between PCollections of your own pipeline. [BoundContributions] takes your pairs
// of examples and owners, and [SampleBatches] makes batches of what it keeps:
//
//	pairs    PCollection<KV<K, V>>        example id, owner id
//	  │ BoundContributions                at most k examples of each owner
//	Examples ── Rows ──▶ PCollection<KV<K, Row[V]>>
//	  │ SampleBatches                     b-min-sep, or another scheme of package sampling
//	Batches ── Elements ▶ PCollection<Batch[K]>
//	        ── Write ───▶ files of the run directory, and their index
//
// K and V are int64, uint64, string or []byte, of at most 255 bytes. A collection of other types, an
// unbounded one or one in other windows than the global one is an error when the pipeline is built,
// as every other fault that can be seen then.
//
// # Training
//
// Every transform that draws takes a [Training], a fresh run id and the place of the root key, or
// gets it from what it is given. There is no other way to secret randomness, so that no run id is
// zero or serves two trainings. The key itself is never part of a pipeline: every worker reads it.
//
// # Determinism
//
// An element is a function of the key, the run id, the parameters and the pairs. A bundle that is
// repeated gives the same elements, so that at-least-once delivery changes nothing: equal pairs
// count once, and rows that come twice to a sampling fail the pipeline without naming one.
//
// # Registration
//
// The package registers its own types and functions. Register your own DoFns, with
// register.Function1x0 of a func(transforms.Batch[int64]) for example, the types of your own records,
// with beam.RegisterType, and call beam.Init.
//
// Stability: stable.
package transforms
