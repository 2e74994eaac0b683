// Puts what has changed into the page, and sends the buttons without leaving it. Without
// this script the page works, too: reload it.
'use strict';

const live = document.getElementById('live');
let busy = false;
let again = false;

async function refresh() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  try {
    const answer = await fetch('/board');
    if (!answer.ok) throw new Error(answer.statusText);
    const board = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const now of board.querySelectorAll('div[data-armed]')) {
      const here = document.getElementById(now.id);
      if (here.innerHTML !== now.innerHTML) here.innerHTML = now.innerHTML;
      here.dataset.armed = now.dataset.armed;
      for (const button of here.closest('section').querySelectorAll('button')) {
        button.setAttribute('aria-pressed', String(button.value === now.dataset.armed));
      }
    }
    live.textContent = 'Live.';
  } catch {
    live.textContent = 'The sandbox does not answer.';
  }
  busy = false;
  if (again) {
    again = false;
    refresh();
  }
}

for (const form of document.forms) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      await fetch(form.action, { method: 'POST', body, redirect: 'manual' });
    } finally {
      refresh();
    }
  });
}

const events = new EventSource('/events');
events.addEventListener('changed', refresh);
events.addEventListener('error', () => {
  live.textContent = 'The sandbox has ended, or restarts.';
});
