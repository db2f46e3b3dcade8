// What the shop sells. All of it is made up.

export const groups = ["Light", "Desk", "Coffee"];

export const goods = [
  {
    slug: "aurora-lamp", name: "Aurora desk lamp", group: "Light", price: 89, image: "lamp.svg", colours: ["Brass", "Black", "White"],
    lead: "A warm light that follows your evening.", text: "Dims from reading to bedtime, remembers the last setting, and folds flat. 2700 K, 9 watts, with a cable of two metres.",
  },
  {
    slug: "halo-lamp", name: "Halo floor lamp", group: "Light", price: 149, image: "halo.svg", colours: ["Brass", "Black"],
    lead: "A ring of light for the corner that has none.", text: "Stands on a base of oak and lights the wall, not your eyes. 3000 K, 18 watts, switched by foot.",
  },
  {
    slug: "cedar-stand", name: "Cedar monitor stand", group: "Desk", price: 59, image: "stand.svg", colours: ["Cedar", "Walnut"],
    lead: "Your screen at the height of your eyes.", text: "Solid wood, oiled by hand, with room for a keyboard below. Carries 20 kg.",
  },
  {
    slug: "felt-mat", name: "Felt desk mat", group: "Desk", price: 35, image: "mat.svg", colours: ["Grey", "Moss", "Rust"],
    lead: "Soft, quiet, and kind to a mouse.", text: "Wool felt of 4 mm on cork. 80 by 30 cm. Coffee comes out with cold water.",
  },
  {
    slug: "pour-over", name: "Pour-over set", group: "Coffee", price: 42, image: "coffee.svg", colours: ["White", "Sand"],
    lead: "Two cups, four minutes.", text: "A dripper of stoneware, a carafe, and forty filters to begin with.",
  },
  {
    slug: "ridge-mug", name: "Ridge mug", group: "Coffee", price: 18, image: "mug.svg", colours: ["White", "Sand", "Blue"],
    lead: "Holds what you need before nine.", text: "Stoneware, 350 ml, with ridges that stay cool. The dishwasher is fine.",
  },
];

/** @returns {any} the good, or undefined where there is none */
export const bySlug = (slug) => goods.find((g) => g.slug === slug);

export const money = (amount) => `€${amount.toFixed(2)}`;
