package xtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxPicture bounds an upload, in bytes.
const maxPicture = 6 << 20

// upload serves POST /2/media/upload: a picture, in one piece.
func (p *Platform) upload(w http.ResponseWriter, r *http.Request) {
	if answer := p.receive(r, ""); answer != Reply {
		p.refuse(w, answer)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxPicture)
	file, _, err := r.FormFile("media")
	if err != nil || r.FormValue("media_category") != "tweet_image" {
		fail(w, http.StatusBadRequest, "Invalid Request", "media type unrecognized.", "")
		return
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.sequence++
	pic := Picture{ID: strconv.FormatUint(9_000_000_000+p.sequence, 10), Type: r.FormValue("media_type"), Bytes: content}
	p.pictures = append(p.pictures, pic)
	p.mu.Unlock()
	loopback.JSON(w, http.StatusOK, map[string]any{"data": map[string]any{
		"id": pic.ID, "media_key": "3_" + pic.ID, "size": len(content), "expires_after_secs": 86400,
	}})
}

// describe serves POST /2/media/metadata.
func (p *Platform) describe(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ID       string `json:"id"`
		Metadata struct {
			Alt struct {
				Text string `json:"text"`
			} `json:"alt_text"`
		} `json:"metadata"`
	}
	if json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in) != nil {
		fail(w, http.StatusBadRequest, "Invalid Request", "One or more parameters to your request was invalid.", "")
		return
	}
	if answer := p.receive(r, ""); answer != Reply {
		p.refuse(w, answer)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.pictures {
		if p.pictures[i].ID == in.ID {
			p.pictures[i].Alt = in.Metadata.Alt.Text
		}
	}
	loopback.JSON(w, http.StatusOK, map[string]any{"data": map[string]any{"id": in.ID}})
}
