package vault

import (
	"crypto/cipher"
	"fmt"
)

// Rules of this file: a sealed credential is
//
//	2 | nonce | wrapped data key and its tag | nonce | ciphertext and its tag
//
// Only the wrapped part depends on the vault's key, so that the key can be replaced
// without opening the secret.

const (
	envelope = 2
	// wrapped is the length of the part that depends on the vault's key.
	wrapped = nonceSize + keySize + tagSize
)

// Seal encrypts a secret for one binding, with the vault's first key. Two seals of
// one secret differ.
func (v *Vault) Seal(secret []byte, at Binding) ([]byte, error) {
	data, err := random(keySize)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	out := make([]byte, 1, 1+wrapped+nonceSize+len(secret)+tagSize)
	out[0] = envelope
	if out, err = sealTo(out, v.keys[0].wrap, data, at); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	body, err := newAEAD(data)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	if out, err = sealTo(out, body, secret, at); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return out, nil
}

// Open decrypts a secret that Seal encrypted with the same binding. keyID is the id
// stored beside it. It fails with ErrKeyID or ErrSealed.
func (v *Vault) Open(sealed []byte, keyID string, at Binding) ([]byte, error) {
	key := v.find(keyID)
	if key == nil {
		return nil, fmt.Errorf("open: %w", ErrKeyID)
	}
	data, body, err := key.unwrap(sealed, at)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	aead, err := newAEAD(data)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	secret, err := openFrom(body, aead, at)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return secret, nil
}

// Rewrap replaces the key of a sealed secret with the vault's first key, without opening
// the secret itself. It returns the input unchanged if the first key has sealed it
// already. It fails as Open does.
func (v *Vault) Rewrap(sealed []byte, keyID string, at Binding) ([]byte, error) {
	key := v.find(keyID)
	if key == nil {
		return nil, fmt.Errorf("rewrap: %w", ErrKeyID)
	}
	data, body, err := key.unwrap(sealed, at)
	if err != nil {
		return nil, fmt.Errorf("rewrap: %w", err)
	}
	if key == v.keys[0] {
		return sealed, nil
	}
	out, err := sealTo([]byte{envelope}, v.keys[0].wrap, data, at)
	if err != nil {
		return nil, fmt.Errorf("rewrap: %w", err)
	}
	return append(out, body...), nil
}

// unwrap returns the data key of an envelope, and the part that this key has sealed.
func (k *keyring) unwrap(sealed []byte, at Binding) (data, body []byte, err error) {
	if len(sealed) < 1+wrapped || sealed[0] != envelope {
		return nil, nil, ErrSealed
	}
	data, err = openFrom(sealed[1:1+wrapped], k.wrap, at)
	return data, sealed[1+wrapped:], err
}

// sealTo appends a nonce and a ciphertext.
func sealTo(out []byte, aead cipher.AEAD, plain []byte, at Binding) ([]byte, error) {
	nonce, err := random(nonceSize)
	if err != nil {
		return nil, err
	}
	return aead.Seal(append(out, nonce...), nonce, plain, at.associated()), nil
}

// openFrom decrypts a nonce and a ciphertext.
func openFrom(sealed []byte, aead cipher.AEAD, at Binding) ([]byte, error) {
	if len(sealed) < nonceSize+tagSize {
		return nil, ErrSealed
	}
	plain, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], at.associated())
	if err != nil {
		return nil, ErrSealed // the cause adds nothing
	}
	return plain, nil
}
