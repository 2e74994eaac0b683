package vault

import (
	"crypto/cipher"
	"fmt"
)

// Rules of this file: a sealed credential is
//
//	2 | nonce | wrapped data key and its tag | nonce | ciphertext and its tag
//
// The wrapped part is all that depends on the vault's key, so that another key
// takes its place without the secret being opened.

const (
	envelope = 2
	// wrapped is the length of the part that depends on the vault's key.
	wrapped = nonceSize + keySize + tagSize
)

// Seal encrypts a secret for one place, with the vault's first key. Two seals of
// one secret differ.
func (v *Vault) Seal(secret []byte, at Place) ([]byte, error) {
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

// Open decrypts what Seal made for the same place. keyID is the one stored
// beside it. It fails with ErrKeyID or ErrSealed.
func (v *Vault) Open(sealed []byte, keyID string, at Place) ([]byte, error) {
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

// Rewrap seals what keyID has sealed with the vault's first key, without opening the
// secret itself. It returns what the first key has sealed already as it is. It fails
// like Open.
func (v *Vault) Rewrap(sealed []byte, keyID string, at Place) ([]byte, error) {
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

// unwrap returns the data key of an envelope, and what that key has sealed.
func (k *keyring) unwrap(sealed []byte, at Place) (data, body []byte, err error) {
	if len(sealed) < 1+wrapped || sealed[0] != envelope {
		return nil, nil, ErrSealed
	}
	data, err = openFrom(sealed[1:1+wrapped], k.wrap, at)
	return data, sealed[1+wrapped:], err
}

// sealTo appends a nonce and a ciphertext.
func sealTo(out []byte, aead cipher.AEAD, plain []byte, at Place) ([]byte, error) {
	nonce, err := random(nonceSize)
	if err != nil {
		return nil, err
	}
	return aead.Seal(append(out, nonce...), nonce, plain, at.associated()), nil
}

// openFrom decrypts a nonce and a ciphertext.
func openFrom(sealed []byte, aead cipher.AEAD, at Place) ([]byte, error) {
	if len(sealed) < nonceSize+tagSize {
		return nil, ErrSealed
	}
	plain, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], at.associated())
	if err != nil {
		return nil, ErrSealed // the cause would only say so in other words
	}
	return plain, nil
}
