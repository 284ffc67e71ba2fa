// Package ownergraph holds an example–owner graph in memory: its ids, the greedy bound on the
// number of examples of an owner, and the neighbourhoods of examples that share an owner. It is the
// reference that the distributed transforms must equal bit for bit.
package ownergraph
