// Package stream gives random words by address instead of by order.
//
// Every random number of minsep is a function of (key, address, counter). The address is an example
// and the number of its copy, or a sample, or a step; the counter numbers the words there. So a
// retry, another worker, another number of shards or another runner draws the same number, any part
// of a result can be made again on its own, and no two uses share a word unless they share all
// three.
//
// Take a [Root] from a key file, derive the [Key] of your purpose from it, and then
//
//   - a [Source] for draws that belong to an id: [Source.IntAddress] or [Source.BytesAddress] name
//     the id and its copy, and [Stream] gives the words at that address;
//   - [Bulk] for long runs of words that belong to numbered things, such as Monte Carlo samples or
//     steps; or [ChaCha], where accelerators are to make the same words.
//
// A Key serves one of the two, never both, and one purpose; use [Key.Sub] to divide it.
//
// # Construction
//
// With AES-128 and independent keys K1, K2 (the halves of the Key), word pair c of an address A
// is the block AES_K2(A xor c), low word first, little endian. The address of an integer id is
// AES_K1(copy ‖ id), a permutation, so that different ids never share an address. The address of a
// string is the first half of HMAC-SHA256 under a third key. Both are hash-then-encrypt (two-block
// CBC-MAC with independent keys): a pseudorandom function of the pair (id, counter), which lie in
// fields of their own. Any two of N streams of L blocks each overlap with probability below (N
// L)²/2^129: under 2^-56 for 1e8 streams of 1000 blocks.
//
// Bulk block c of number i is AES_K(i ‖ c), both fields 64 bits, big endian: distinct inputs of
// one permutation. ChaCha has a key of 256 bits, and block and number in fields of its state.
// The results of these functions are frozen; a test holds vectors of them.
package stream

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"unsafe"
)

// MaxStringID is the greatest length of a string id in bytes.
const MaxStringID = 255

// Address names a stream of one Source: an id and a copy number of it, hashed to 128 bits.
type Address [16]byte

// Uint64 returns the first 64 bits of the address, a keyed hash of the id that serves as hash
// bucket or priority.
func (a Address) Uint64() uint64 { return binary.LittleEndian.Uint64(a[:8]) }

// Source computes addresses and streams under one key. It is not safe for concurrent use; sources
// of one key are equal, so each worker makes its own.
type Source struct {
	addresses, blocks cipher.Block
	strings           hash.Hash // HMAC-SHA256
	in, out           [sha256.Size]byte
}

// NewSource returns the source of key.
func NewSource(key Key) *Source {
	stringKey := key.Sub("string ids")
	return &Source{
		addresses: newCipher(key.secret[:16]),
		blocks:    newCipher(key.secret[16:]),
		strings:   hmac.New(sha256.New, stringKey.secret[:]),
	}
}

// newCipher returns AES-128 under a key of 16 bytes.
func newCipher(key []byte) cipher.Block {
	c, err := aes.NewCipher(key)
	if err != nil { // only for keys of a wrong length
		panic("stream: " + err.Error())
	}
	return c
}

// IntAddress returns the address of copy (0 for the first) of an integer id. Integers and strings
// have separate addresses: 7 is not "7".
func (s *Source) IntAddress(id int64, copy uint32) Address {
	binary.BigEndian.PutUint64(s.in[:8], uint64(copy))
	binary.BigEndian.PutUint64(s.in[8:16], uint64(id))
	s.addresses.Encrypt(s.out[:16], s.in[:16])
	return Address(s.out[:16])
}

// BytesAddress returns the address of copy (0 for the first) of a string id of at most [MaxStringID]
// bytes. It panics for a longer one.
func (s *Source) BytesAddress(id []byte, copy uint32) Address {
	if len(id) > MaxStringID {
		panic(fmt.Sprintf("stream: string id of %d bytes: readers must refuse more than %d", len(id), MaxStringID))
	}
	s.strings.Reset()
	binary.BigEndian.PutUint32(s.in[:4], copy)
	s.strings.Write(s.in[:4])
	s.strings.Write(id)
	return Address(s.strings.Sum(s.out[:0])[:16])
}

// Stream gives the words at one address in order. Reset it to go to another address; a Stream that
// is reused allocates nothing.
type Stream struct {
	src  *Source
	addr Address
	next uint64 // counter of the next block
	high uint64 // second word of the last block
	half bool   // high has not been given yet
	buf  [aes.BlockSize]byte
}

// Stream returns the stream at addr.
func (s *Source) Stream(addr Address) *Stream { return &Stream{src: s, addr: addr} }

// Reset goes to the first word at addr.
func (st *Stream) Reset(addr Address) { st.addr, st.next, st.half = addr, 0, false }

// Uint64 returns the next word.
func (st *Stream) Uint64() uint64 {
	if st.half {
		st.half = false
		return st.high
	}
	st.buf = st.addr
	low := binary.LittleEndian.Uint64(st.buf[:8])
	binary.LittleEndian.PutUint64(st.buf[:8], low^st.next)
	st.src.blocks.Encrypt(st.buf[:], st.buf[:])
	st.next++
	st.high, st.half = binary.LittleEndian.Uint64(st.buf[8:]), true
	return binary.LittleEndian.Uint64(st.buf[:8])
}

// Bulk gives long runs of words that belong to numbered things. It is not safe for concurrent use.
type Bulk struct {
	block cipher.Block
	iv    [aes.BlockSize]byte
}

// NewBulk returns the bulk source of key.
func NewBulk(key Key) *Bulk { return &Bulk{block: newCipher(key.secret[:16])} }

// Words fills dst with the words of number from word 2*block on: a block holds two words. The words
// are the same on every processor.
func (b *Bulk) Words(dst []uint64, number, block uint64) {
	if len(dst) == 0 {
		return
	}
	binary.BigEndian.PutUint64(b.iv[:8], number)
	binary.BigEndian.PutUint64(b.iv[8:], block)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 8*len(dst))
	rest := raw
	for len(raw) <= fewBytes && len(rest) >= aes.BlockSize && block < math.MaxUint64 {
		b.block.Encrypt(rest, b.iv[:])
		rest = rest[aes.BlockSize:]
		block++
		binary.BigEndian.PutUint64(b.iv[8:], block)
	}
	if len(rest) > 0 {
		ctr := cipher.NewCTR(b.block, b.iv[:])
		for len(rest) > 0 {
			n := min(len(rest), len(zeros))
			ctr.XORKeyStream(rest[:n], zeros[:n])
			rest = rest[n:]
		}
	}
	if bigEndian {
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint64(raw[8*i:])
		}
	}
}

// fewBytes are the bytes up to which blocks are encrypted one by one: a cipher in counter mode takes
// as long to make as thirty blocks.
const fewBytes = 128

// zeros are the plain text that a cipher in counter mode turns into its stream.
var zeros [16 << 10]byte

// bigEndian is true on processors that store the high byte first: there Words swaps the bytes of
// each word, which it filled as bytes.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
