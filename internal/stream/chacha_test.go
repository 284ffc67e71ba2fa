package stream

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"
)

// chachaBytes is one block of a state as RFC 8439 writes it.
func chachaBytes(t *testing.T, key, counterAndNonce string, rounds int) string {
	t.Helper()
	text, err := hex.DecodeString(key + counterAndNonce)
	if err != nil || len(text) != 48 {
		t.Fatalf("key, counter and nonce have %d bytes: %v", len(text), err)
	}
	state := NewChaCha(PublicKey("", nil)).state
	for i := range 12 {
		state[4+i] = binary.LittleEndian.Uint32(text[4*i:])
	}
	words := make([]uint64, 8)
	chachaBlock(words, &state, rounds)
	var out []byte
	for _, w := range words {
		out = binary.LittleEndian.AppendUint64(out, w)
	}
	return hex.EncodeToString(out)
}

// TestChaChaVectors: RFC 8439, section 2.3.2, has 20 rounds; TC1 with a key of 256 bits of
// draft-strombergson-chacha-test-vectors-01 has 12.
func TestChaChaVectors(t *testing.T) {
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	for _, v := range []struct {
		key, rest string
		rounds    int
		want      string
	}{
		{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "01000000000000090000004a00000000", 20,
			"10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"},
		{zeros, zeros[:32], 12,
			"9bf49a6a0755f953811fce125f2683d50429c3bb49e074147e0089a52eae155f0564f879d27ae3c02ce82834acfa8c793a629f2ca0de6919610be82f411326be"},
	} {
		if got := chachaBytes(t, v.key, v.rest, v.rounds); got != v.want {
			t.Errorf("%d rounds: got %s, want %s", v.rounds, got, v.want)
		}
	}
}

// chachaWords makes words one block at a time.
func chachaWords(c *ChaCha, n int, number, pair uint64) []uint64 {
	var words []uint64
	state := c.state
	state[14], state[15] = uint32(number), uint32(number>>32)
	for block := pair / 4; len(words) < n+8; block++ {
		state[12], state[13] = uint32(block), uint32(block>>32)
		words = append(words, make([]uint64, 8)...)
		chachaBlock(words[len(words)-8:], &state, chachaRounds)
	}
	return words[pair%4*2:][:n]
}

// chachaWidths are the numbers of blocks that this processor makes side by side.
func chachaWidths() []int {
	switch chachaVectors {
	case 16:
		return []int{0, 8, 16}
	case 0:
		return []int{0}
	}
	return []int{0, chachaVectors}
}

// TestChaChaKernels compares the words of every width of vectors with the portable code's, from
// every place within a block and a group, and about the carry of the block's number.
func TestChaChaKernels(t *testing.T) {
	widest := chachaVectors
	defer func() { chachaVectors = widest }()
	rng := rand.New(rand.NewPCG(1, 2))
	key := Key{secret: new([32]byte)}
	for i := range key.secret {
		key.secret[i] = byte(rng.Uint32())
	}
	c := NewChaCha(key)
	for _, chachaVectors = range chachaWidths() {
		for range 400 {
			n, number, pair := rng.IntN(700), rng.Uint64()>>rng.IntN(64), rng.Uint64()>>(rng.IntN(56)+2)
			if rng.IntN(3) == 0 {
				pair = (1+rng.Uint64N(5))<<34 - rng.Uint64N(200)
			}
			got := make([]uint64, n)
			c.Words(got, number, pair)
			if !slices.Equal(got, chachaWords(c, n, number, pair)) {
				t.Fatalf("vectors of %d: %d words of number %d from pair %d on", chachaVectors, n, number, pair)
			}
		}
	}
}
