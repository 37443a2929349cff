// SPDX-License-Identifier: MIT
// Makes and changes elements. Text is inserted as text, not as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes ?? {})) {
		if (value === null || value === undefined || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else element.setAttribute(name, value === true ? "" : value);
	}
	element.append(...children.flat().filter((child) => child !== null && child !== undefined));
	return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Changes a text only when it differs, so that selections and screen readers are not disturbed.
export function setText(element, text) {
	if (element.textContent !== text) element.textContent = text;
}

export function setHidden(element, hidden) {
	if (element.hidden !== hidden) element.hidden = hidden;
}

// Makes a list show these items in this order: known ones are updated in place, gone ones removed. What is moved keeps the focus.
export function reconcile(list, items, key, make, update) {
	const focused = document.activeElement;
	const names = new Set(items.map((item) => String(key(item))));
	for (const child of [...list.children]) if (!names.has(child.dataset.key)) child.remove();
	const known = new Map([...list.children].map((child) => [child.dataset.key, child]));
	let at = list.firstElementChild;
	for (const item of items) {
		const name = String(key(item));
		const child = known.get(name) ?? make(item);
		child.dataset.key = name;
		update(child, item);
		if (child === at) at = at.nextElementSibling;
		else list.insertBefore(child, at);
	}
	if (focused !== document.activeElement && list.contains(focused)) focused.focus({ preventScroll: true });
}
