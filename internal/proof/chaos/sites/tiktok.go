package sites

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

const (
	// lifeOfUpload is for how long TikTok takes bytes.
	lifeOfUpload = time.Hour
	// works is how long TikTok works on a video here.
	works = 300 * time.Millisecond
	// film is where the video is, beside the API, and beginsVideo begins a post.
	film        = "/film.mp4"
	beginsVideo = "/v2/post/publish/video/init/"
)

// Film is where a video is to be had, given the site's address.
func Film(address string) string { return address + film }

// uploads knows whose bytes come to an upload's address.
type uploads struct {
	mu sync.Mutex
	of map[string]string // subjects, by upload_id
}

// startTikTok starts the simulated TikTok, with a host of videos beside it.
func startTikTok(context.Context, string) (platform.Site, error) {
	p, err := tiktoktest.Start(tiktoktest.Options{Process: works, UploadLife: hastened(lifeOfUpload)})
	if err != nil {
		return platform.Site{}, err
	}
	u := &uploads{of: make(map[string]string)}
	return new(tokens).guard(platform.Site{
		URL: p.URL(), Close: p.Close, Sort: u.sort, Heard: u.heard,
		Here: map[string][]byte{film: bytes.Repeat([]byte("film"), 1000)},
		At:   func(address string) { p.Uploads(address) },
		Made: func(context.Context) (out []platform.Made, _ error) {
			for _, post := range p.All() {
				out = append(out, platform.Made{Subject: post.Text, ID: post.ID})
			}
			return out, nil
		},
		Words: map[platform.Fault]platform.Words{
			platform.Unauthorized: says(http.StatusUnauthorized, refused("access_token_invalid")),
			platform.Refuse:       says(http.StatusBadRequest, refused("invalid_param")),
		},
	}), nil
}

func refused(code string) string {
	return `{"data":{},"error":{"code":"` + code + `","message":"words","log_id":"1"}}`
}

// begin is what begins a post.
type begin struct {
	Post struct {
		Title string `json:"title"`
	} `json:"post_info"`
	Source struct {
		Source string `json:"source"`
	} `json:"source_info"`
}

// sort returns what makes a post: the beginning of one that TikTok fetches, the bytes of
// one that is uploaded.
func (u *uploads) sort(r platform.Request) platform.Purpose {
	switch {
	case r.Method == http.MethodPut:
		u.mu.Lock()
		defer u.mu.Unlock()
		return platform.Purpose{Subject: u.of[r.Query.Get("upload_id")]}
	case r.Path != beginsVideo:
		return platform.Purpose{}
	}
	var in begin
	if err := json.Unmarshal(r.Body, &in); err != nil || in.Source.Source == "FILE_UPLOAD" {
		return platform.Purpose{Prepares: true}
	}
	return platform.Purpose{Subject: in.Post.Title}
}

// heard keeps whose upload has begun.
func (u *uploads) heard(r platform.Request, answer []byte) {
	if r.Path != beginsVideo {
		return
	}
	var in begin
	var out struct {
		Data struct {
			URL string `json:"upload_url"`
		} `json:"data"`
	}
	if json.Unmarshal(r.Body, &in) != nil || json.Unmarshal(answer, &out) != nil || !strings.Contains(out.Data.URL, "upload_id") {
		return
	}
	to, err := url.Parse(out.Data.URL)
	if err != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[to.Query().Get("upload_id")] = in.Post.Title
}
