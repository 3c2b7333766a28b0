(** * Protocols of mbarriers: obligations imply that no execution hangs or races

    This file mechanizes Theorem K of docs/kernel.md for the mbarrier fragment, at fixed values of the
    parameters. It has three parts:

    - the semantics: events of threads and engines, barriers with phase, pending count and tx count;
    - the obligations that the kernel checks (O1 to O4, accounting, ranks), as hypotheses of a section;
    - the theorems: every reachable state has a next step or is complete ([no_hang]); every contribution
      and every wait has the phase that the proof claims ([phases]); a path of the graph orders its ends
      in every execution ([path_orders]); the pending count never falls below zero ([no_underflow]).

    No schedule is chosen: the theorems speak of every execution.

    An event is one execution of one operation. [req f e] says that [f] is performed before [e] can be:
    program order of a thread, and the issue of an asynchronous copy before its completion. *)

From Coq Require Import ZArith List Lia Bool Relations Arith.
Import ListNotations.
Local Open Scope Z_scope.

(** ** Sums over finite sets of events *)

Section Sums.
  Variable E : Type.
  Variable E_eq : forall e f : E, {e = f} + {e <> f}.

  Fixpoint total (P : E -> bool) (g : E -> Z) (l : list E) : Z :=
    match l with
    | [] => 0
    | e :: r => (if P e then g e else 0) + total P g r
    end.

  Lemma total_ext : forall P Q g l, (forall e, In e l -> P e = Q e) -> total P g l = total Q g l.
  Proof.
    induction l as [|a l IH]; simpl; intros H; [reflexivity|].
    rewrite (H a), IH by auto. reflexivity.
  Qed.

  Lemma total_none : forall P g l, (forall e, In e l -> P e = false) -> total P g l = 0.
  Proof.
    induction l as [|a l IH]; simpl; intros H; [reflexivity|].
    rewrite (H a), IH by auto. reflexivity.
  Qed.

  (** One more member adds its value. *)
  Lemma total_add : forall P Q g l e,
    NoDup l -> In e l -> P e = false -> Q e = true -> (forall f, f <> e -> P f = Q f) ->
    total Q g l = total P g l + g e.
  Proof.
    induction l as [|a l IH]; simpl; intros e ND IN Pe Qe EQ; [contradiction|].
    inversion ND as [|x y Hn ND']; subst.
    destruct IN as [->|IN].
    - rewrite Pe, Qe. rewrite (total_ext P Q g l).
      + lia.
      + intros f Hf. apply EQ. intros ->. contradiction.
    - rewrite (IH e ND' IN Pe Qe EQ). rewrite (EQ a); [lia|]. intros ->. contradiction.
  Qed.

  (** A part of a sum of numbers that are not negative is at most the whole. *)
  Lemma total_le : forall P Q g l,
    (forall e, In e l -> 0 <= g e) -> (forall e, P e = true -> Q e = true) -> total P g l <= total Q g l.
  Proof.
    induction l as [|a l IH]; simpl; intros G PQ; [lia|].
    assert (total P g l <= total Q g l) by (apply IH; auto).
    assert (0 <= g a) by auto.
    destruct (P a) eqn:HP; [rewrite (PQ a HP); lia|destruct (Q a); lia].
  Qed.

  (** If the part is the whole, what is missing adds nothing. *)
  Lemma total_missing : forall P Q g l e,
    (forall f, In f l -> 0 <= g f) -> (forall f, P f = true -> Q f = true) ->
    In e l -> Q e = true -> P e = false -> total P g l = total Q g l -> g e = 0.
  Proof.
    induction l as [|a l IH]; simpl; intros e G PQ IN Qe Pe EQ; [contradiction|].
    assert (L : total P g l <= total Q g l) by (apply total_le; auto).
    assert (Ga : 0 <= g a) by auto.
    destruct IN as [->|IN].
    - rewrite Qe, Pe in EQ. lia.
    - apply IH; auto.
      destruct (P a) eqn:HP; [rewrite (PQ a HP) in EQ; lia|destruct (Q a); lia].
  Qed.

  Lemma total_split : forall P Q g l, (forall e, P e = true -> Q e = true) ->
    total Q g l = total P g l + total (fun e => Q e && negb (P e)) g l.
  Proof.
    induction l as [|a l IH]; simpl; intros PQ; [lia|].
    rewrite (IH PQ).
    destruct (P a) eqn:HP; [rewrite (PQ a HP); simpl; lia|destruct (Q a); simpl; lia].
  Qed.

  Lemma total_opp : forall P g l, total P (fun e => - g e) l = - total P g l.
  Proof.
    induction l as [|a l IH]; simpl; [reflexivity|]. rewrite IH. destruct (P a); lia.
  Qed.

  Lemma total_positive : forall P g l, 0 < total P g l -> exists e, In e l /\ P e = true /\ 0 < g e.
  Proof.
    induction l as [|a l IH]; simpl; intros H; [lia|].
    destruct (Z_lt_dec 0 (total P g l)) as [Hl|Hl].
    - destruct (IH Hl) as (e & ? & ? & ?). exists e. auto.
    - destruct (P a) eqn:HP; [|lia]. exists a. repeat split; auto. lia.
  Qed.
End Sums.

(** ** Semantics *)

Section Protocol.
  Variable E : Type.
  Variable E_eq : forall e f : E, {e = f} + {e <> f}.
  Variable events : list E.
  Hypothesis events_all : forall e, In e events.
  Hypothesis events_once : NoDup events.

  (** [Contribute b arrivals bytes]: an arrive has arrivals, an expect-tx has positive bytes, an
      arrive.expect_tx both, the completion of a copy negative bytes. [Wait b parity] passes when the phase
      of that parity is complete: when the current phase has the other parity. [Other]: everything else,
      such as an access to memory or the issue of a copy. *)
  Inductive op :=
  | Contribute (b : nat) (arrivals bytes : Z)
  | Wait (b : nat) (parity : Z)
  | Other.

  Variable what : E -> op.
  Variable req : E -> E -> Prop.
  Variable count : nat -> Z.

  Record barrier := Barrier { phase : Z; pending : Z; tx : Z }.

  (** The trace has the newest event first, each with the phase it met: the current one for a contribution,
      the one before it for a wait. *)
  Record state := State { trace : list (E * Z); bars : nat -> barrier }.

  Definition done (s : state) (e : E) : Prop := In e (map fst (trace s)).

  Definition start : state := State [] (fun b => Barrier 0 (count b) 0).

  (** A phase completes when nothing is pending and no bytes are outstanding. Arrivals and completions of
      copies may complete it; an expect-tx alone does not. *)
  Definition contribute (b : barrier) (n a x : Z) : barrier :=
    let p := pending b - a in
    let t := tx b + x in
    if ((0 <? a) || (x <? 0)) && (p =? 0) && (t =? 0)
    then Barrier (phase b + 1) n 0
    else Barrier (phase b) p t.

  Definition set (f : nat -> barrier) (b : nat) (v : barrier) : nat -> barrier :=
    fun c => if Nat.eq_dec c b then v else f c.

  Definition ready (s : state) (e : E) : Prop := ~ done s e /\ forall f, req f e -> done s f.

  Inductive step : state -> state -> Prop :=
  | step_contribute : forall s e b a x,
      ready s e -> what e = Contribute b a x ->
      step s (State ((e, phase (bars s b)) :: trace s)
                    (set (bars s) b (contribute (bars s b) (count b) a x)))
  | step_wait : forall s e b p,
      ready s e -> what e = Wait b p -> phase (bars s b) mod 2 <> p ->
      step s (State ((e, phase (bars s b) - 1) :: trace s) (bars s))
  | step_other : forall s e,
      ready s e -> what e = Other ->
      step s (State ((e, 0) :: trace s) (bars s)).

  Inductive reachable : state -> Prop :=
  | reach_start : reachable start
  | reach_step : forall s t, reachable s -> step s t -> reachable t.

  (** ** What a proof claims, and what the kernel checks of it *)

  (** [ph e]: the phase of a contribution, the phase that a wait means. [last b]: how many phases of [b]
      are complete in the end. [rank]: a number that grows along every edge. *)
  Variable ph : E -> Z.
  Variable last : nat -> Z.
  Variable rank : E -> nat.

  Definition on (b : nat) (k : Z) (e : E) : bool :=
    match what e with Contribute c _ _ => Nat.eqb b c && (k =? ph e) | _ => false end.
  Definition arrivals (e : E) : Z := match what e with Contribute _ a _ => a | _ => 0 end.
  Definition bytes (e : E) : Z := match what e with Contribute _ _ x => x | _ => 0 end.

  Definition edge (e f : E) : Prop :=
    req e f \/ exists b a x p, what e = Contribute b a x /\ what f = Wait b p /\ ph e = ph f.
  Definition path : E -> E -> Prop := clos_trans E edge.
  Definition path_or_same : E -> E -> Prop := clos_refl_trans E edge.

  Hypothesis ranks : forall e f, edge e f -> (rank e < rank f)%nat.
  Hypothesis counts : forall b, 0 < count b.
  Hypothesis shapes : forall e b a x, what e = Contribute b a x -> 0 <= a /\ (0 < a \/ x <> 0).
  Hypothesis within : forall e b a x, what e = Contribute b a x -> 0 <= ph e <= last b.
  Hypothesis means : forall w b p, what w = Wait b p -> -1 <= ph w < last b /\ p = ph w mod 2.
  Hypothesis full : forall b k, 0 <= k < last b ->
    total E (on b k) arrivals events = count b /\ total E (on b k) bytes events = 0.
  Hypothesis tail : forall b, total E (on b (last b)) arrivals events < count b.
  Hypothesis O1 : forall e f b a x c y,
    what e = Contribute b a x -> what f = Contribute b c y -> ph f = ph e + 1 -> path e f.
  Hypothesis O2 : forall e w b a x p,
    what e = Contribute b a x -> what w = Wait b p -> ph w = ph e + 1 ->
    exists r, req r w /\ path_or_same e r.
  Hypothesis O3 : forall w b p,
    what w = Wait b p -> ph w + 1 < last b ->
    exists e a x, what e = Contribute b a x /\ ph e = ph w + 1 /\ path w e.
  Hypothesis O4 : forall e b a x,
    what e = Contribute b a x -> 0 < x -> ph e < last b ->
    0 < a \/ exists f c y, what f = Contribute b c y /\ ph f = ph e /\ 0 < c /\ path e f.

  (** ** The invariant of reachable states *)

  Definition member (s : state) (e : E) : bool := if in_dec E_eq e (map fst (trace s)) then true else false.

  Lemma member_done : forall s e, member s e = true <-> done s e.
  Proof. intros s e. unfold member, done. destruct (in_dec _ _ _); split; intros; auto; discriminate. Qed.

  Definition here (s : state) (b : nat) (k : Z) (e : E) : bool := on b k e && member s e.

  Record good (s : state) : Prop := Good {
    closed : forall e f, edge e f -> done s f -> done s e;
    range : forall b, 0 <= phase (bars s b) <= last b \/ (phase (bars s b) = 0 /\ last b < 0);
    past : forall b e a x, what e = Contribute b a x -> ph e < phase (bars s b) -> done s e;
    present : forall b e a x, what e = Contribute b a x -> done s e -> ph e <= phase (bars s b);
    owed : forall b, pending (bars s b) = count b - total E (here s b (phase (bars s b))) arrivals events;
    outstanding : forall b, tx (bars s b) = total E (here s b (phase (bars s b))) bytes events;
    missing : forall b, phase (bars s b) < last b ->
      exists e a x, what e = Contribute b a x /\ ph e = phase (bars s b) /\ ~ done s e;
    landed : forall e z, In (e, z) (trace s) ->
      match what e with Other => True | _ => z = ph e end;
    ordered : forall newer e z older, trace s = newer ++ (e, z) :: older ->
      forall f, edge f e -> In f (map fst older)
  }.

  (** *** Facts about the graph *)

  Lemma on_true : forall b k e, on b k e = true <-> exists a x, what e = Contribute b a x /\ ph e = k.
  Proof.
    intros b k e. unfold on. split.
    - destruct (what e) as [c a x| |] eqn:W; try discriminate.
      intros H. apply andb_true_iff in H. destruct H as [H1 H2].
      apply Nat.eqb_eq in H1. apply Z.eqb_eq in H2. subst. eauto.
    - intros (a & x & W & P). rewrite W. apply andb_true_iff. split.
      + apply Nat.eqb_refl.
      + apply Z.eqb_eq. auto.
  Qed.

  Lemma arrivals_nonneg : forall e, 0 <= arrivals e.
  Proof.
    intros e. unfold arrivals. destruct (what e) as [b a x| |] eqn:W; try lia.
    destruct (shapes e b a x W); lia.
  Qed.

  (** Every phase that completes has a contribution. *)
  Lemma inhabited : forall b k, 0 <= k < last b -> exists e a x, what e = Contribute b a x /\ ph e = k.
  Proof.
    intros b k H. destruct (full b k H) as [F _].
    destruct (total_positive E (on b k) arrivals events) as (e & _ & O & _).
    - rewrite F. apply counts.
    - apply on_true in O. destruct O as (a & x & W & P). eauto.
  Qed.

  Lemma path_trans : forall e f g, path e f -> path f g -> path e g.
  Proof. intros e f g. apply t_trans. Qed.

  (** O1 reaches over any number of phases. *)
  Lemma O1_far : forall n e f b a x c y,
    what e = Contribute b a x -> what f = Contribute b c y -> ph f = ph e + 1 + Z.of_nat n -> path e f.
  Proof.
    induction n as [|n IH]; intros e f b a x c y We Wf P.
    - eapply O1; eauto. lia.
    - assert (0 <= ph e <= last b) by (eapply within; eauto).
      assert (0 <= ph f <= last b) by (eapply within; eauto).
      destruct (inhabited b (ph f - 1)) as (g & d & z & Wg & Pg); [lia|].
      apply path_trans with g.
      + eapply IH; eauto. lia.
      + eapply O1; eauto. lia.
  Qed.

  Lemma O1_less : forall e f b a x c y,
    what e = Contribute b a x -> what f = Contribute b c y -> ph e < ph f -> path e f.
  Proof.
    intros. eapply (O1_far (Z.to_nat (ph f - ph e - 1))); eauto. lia.
  Qed.

  Lemma path_closed : forall s, good s -> forall e f, path e f -> done s f -> done s e.
  Proof.
    intros s G e f P. induction P; intros D; [|auto]. eapply closed; eauto.
  Qed.

  Lemma path_or_same_closed : forall s, good s -> forall e f, path_or_same e f -> done s f -> done s e.
  Proof.
    intros s G e f P. induction P; intros D; auto. eapply closed; eauto.
  Qed.

  (** A contribution is reached through what it requires alone. *)
  Lemma path_requires : forall e f b a x, path e f -> what f = Contribute b a x ->
    exists r, req r f /\ path_or_same e r.
  Proof.
    intros e f b a x P. apply clos_trans_tn1 in P. destruct P as [f H|g f H P]; intros W.
    - destruct H as [H|(? & ? & ? & ? & _ & W' & _)]; [|congruence].
      exists e. split; [auto|apply rt_refl].
    - destruct H as [H|(? & ? & ? & ? & _ & W' & _)]; [|congruence].
      exists g. split; [auto|]. clear - P.
      induction P as [g H|g h H P IH]; [apply rt_step; auto|].
      eapply rt_trans; [apply IH|apply rt_step; auto].
  Qed.

  Lemma ready_path : forall s, good s -> forall e f b a x,
    ready s f -> what f = Contribute b a x -> path e f -> done s e.
  Proof.
    intros s G e f b a x [_ R] W P. destruct (path_requires e f b a x P W) as (r & Rq & Q).
    eapply path_or_same_closed; eauto.
  Qed.

  (** *** A contribution lands in its phase *)

  Lemma lands : forall s, good s -> forall e b a x,
    ready s e -> what e = Contribute b a x -> phase (bars s b) = ph e.
  Proof.
    intros s G e b a x R W.
    assert (Wi : 0 <= ph e <= last b) by (eapply within; eauto).
    destruct (Z_lt_le_dec (phase (bars s b)) (ph e)) as [L|L].
    - destruct (missing s G b) as (f & c & y & Wf & Pf & N); [lia|].
      exfalso. apply N. eapply ready_path; eauto. eapply O1_less; eauto. lia.
    - destruct (Z_lt_le_dec (ph e) (phase (bars s b))) as [M|M]; [|lia].
      exfalso. destruct R as [N _]. apply N. eapply past; eauto.
  Qed.

  (** *** A wait that passes saw its phase *)

  Lemma before_done : forall s, good s -> forall w b p e a x,
    (forall r, req r w -> done s r) -> what w = Wait b p -> what e = Contribute b a x -> ph e < ph w ->
    done s e.
  Proof.
    intros s G w b p e a x R Ww We L.
    destruct (means w b p Ww) as [M _].
    assert (Wi : 0 <= ph e <= last b) by (eapply within; eauto).
    destruct (inhabited b (ph w - 1)) as (g & c & y & Wg & Pg); [lia|].
    destruct (O2 g w b c y p Wg Ww) as (r & Rq & Q); [lia|].
    assert (done s g) by (eapply path_or_same_closed; eauto).
    destruct (Z.eq_dec (ph e) (ph w - 1)) as [EQ|NE].
    - destruct (O2 e w b a x p We Ww) as (r' & Rq' & Q'); [lia|].
      eapply path_or_same_closed; eauto.
    - eapply path_closed; eauto. eapply O1_less; eauto. lia.
  Qed.

  Lemma at_least : forall s, good s -> forall w b p,
    (forall r, req r w -> done s r) -> what w = Wait b p -> ph w <= phase (bars s b).
  Proof.
    intros s G w b p R Ww. destruct (means w b p Ww) as [M _].
    destruct (Z_lt_le_dec (phase (bars s b)) (ph w)) as [L|L]; [|lia].
    destruct (missing s G b) as (f & c & y & Wf & Pf & N); [lia|].
    exfalso. apply N. eapply before_done; eauto. lia.
  Qed.

  Lemma at_most : forall s, good s -> forall w b p,
    ~ done s w -> what w = Wait b p -> phase (bars s b) <= ph w + 1.
  Proof.
    intros s G w b p N Ww. destruct (means w b p Ww) as [M _].
    destruct (Z_lt_le_dec (ph w + 1) (phase (bars s b))) as [L|L]; [|lia].
    destruct (range s G b) as [B|[B B']]; [|lia].
    destruct (O3 w b p Ww) as (e & a & x & We & Pe & Q); [lia|].
    exfalso. apply N. eapply path_closed; eauto. eapply past; eauto. lia.
  Qed.

  Lemma sees : forall s, good s -> forall w b p,
    ready s w -> what w = Wait b p -> phase (bars s b) mod 2 <> p -> phase (bars s b) = ph w + 1.
  Proof.
    intros s G w b p [N R] Ww NP.
    assert (ph w <= phase (bars s b)) by (eapply at_least; eauto).
    assert (phase (bars s b) <= ph w + 1) by (eapply at_most; eauto).
    destruct (means w b p Ww) as [M EQ].
    assert (phase (bars s b) <> ph w) by (intros C; apply NP; rewrite C; auto).
    lia.
  Qed.

  (** *** A phase completes exactly when all its contributions are made *)

  Lemma done_dec : forall s e, {done s e} + {~ done s e}.
  Proof. intros s e. apply (in_dec E_eq). Qed.

  Lemma all_or_missing : forall s b k,
    (forall e a x, what e = Contribute b a x -> ph e = k -> done s e) \/
    (exists e a x, what e = Contribute b a x /\ ph e = k /\ ~ done s e).
  Proof.
    intros s b k.
    assert (H : forall l, (forall e, In e l -> on b k e = true -> done s e) \/
                          (exists e, In e l /\ on b k e = true /\ ~ done s e)).
    { induction l as [|a l IH]; [left; simpl; tauto|].
      destruct IH as [IH|(e & I & O & N)]; [|right; exists e; simpl; auto].
      destruct (on b k a) eqn:O.
      - destruct (done_dec s a) as [D|D].
        + left. intros e [->|I] Oe; auto.
        + right. exists a. simpl. auto.
      - left. intros e [->|I] Oe; [congruence|auto]. }
    destruct (H events) as [A|(e & _ & O & N)].
    - left. intros e a x W P. apply A; [apply events_all|]. apply on_true. eauto.
    - right. apply on_true in O. destruct O as (a & x & W & P). exists e, a, x. auto.
  Qed.

  Lemma here_on : forall s b k e, here s b k e = true -> on b k e = true.
  Proof. unfold here. intros s b k e H. apply andb_true_iff in H. tauto. Qed.

  Lemma here_all : forall s b k,
    (forall e a x, what e = Contribute b a x -> ph e = k -> done s e) ->
    forall e, here s b k e = on b k e.
  Proof.
    intros s b k A e. unfold here. destruct (on b k e) eqn:O; [|reflexivity].
    apply on_true in O. destruct O as (a & x & W & P). simpl. apply member_done. eauto.
  Qed.

  (** Sums that are complete leave nothing out. [clean]: what is done is closed under paths of contributions. *)
  Lemma sums_complete : forall s b k, 0 <= k < last b ->
    (forall e f a x c y, what e = Contribute b a x -> what f = Contribute b c y ->
       ph e = k -> ph f = k -> path e f -> done s f -> done s e) ->
    total E (here s b k) arrivals events = count b ->
    total E (here s b k) bytes events = 0 ->
    forall e a x, what e = Contribute b a x -> ph e = k -> done s e.
  Proof.
    intros s b k K clean A X.
    destruct (full b k K) as [FA FX].
    assert (arr : forall e a x, what e = Contribute b a x -> ph e = k -> 0 < a -> done s e).
    { intros e a x W P Pa. destruct (done_dec s e) as [D|D]; [auto|exfalso].
      assert (Z0 : arrivals e = 0).
      { apply total_missing with (P := here s b k) (Q := on b k) (l := events).
        - intros. apply arrivals_nonneg.
        - apply here_on.
        - apply events_all.
        - apply on_true. eauto.
        - unfold here. destruct (member s e) eqn:M; [apply member_done in M; contradiction|].
          apply andb_false_r.
        - congruence. }
      unfold arrivals in Z0. rewrite W in Z0. lia. }
    assert (exp : forall e a x, what e = Contribute b a x -> ph e = k -> 0 < x -> done s e).
    { intros e a x W P Px. destruct (O4 e b a x W Px) as [Pa|(f & c & y & Wf & Pf & Pc & Q)]; [lia|eauto|].
      eapply (clean e f); eauto; try congruence. eapply arr; eauto. congruence. }
    intros e a x W P. destruct (done_dec s e) as [D|D]; [auto|exfalso].
    destruct (shapes e b a x W) as [Pa Nz].
    assert (A0 : a = 0) by (destruct (Z_lt_dec 0 a); [exfalso; eauto|lia]).
    assert (L : x <= 0) by (destruct (Z_lt_dec 0 x); [exfalso; eauto|lia]).
    set (rest := fun f => on b k f && negb (here s b k f)).
    assert (R0 : total E rest (fun f => - bytes f) events = 0).
    { rewrite total_opp. pose proof (total_split E (here s b k) (on b k) bytes events (here_on s b k)) as S.
      fold rest in S. lia. }
    assert (Rest : forall f, rest f = true -> 0 <= - bytes f).
    { intros f H. unfold rest in H. apply andb_true_iff in H. destruct H as [O Nh].
      apply on_true in O. destruct O as (c & y & Wf & Pf).
      unfold bytes. rewrite Wf. destruct (Z_lt_dec 0 y) as [Py|]; [|lia].
      exfalso. assert (D' : done s f) by eauto. apply member_done in D'.
      unfold here in Nh. rewrite D' in Nh. rewrite andb_true_r in Nh.
      assert (O' : on b k f = true) by (apply on_true; eauto). rewrite O' in Nh. discriminate. }
    assert (Z0 : - bytes e = 0).
    { set (g := fun f => if rest f then - bytes f else 0).
      assert (T : total E rest g events = 0).
      { rewrite <- R0. clear - Rest. unfold g. induction events as [|h l IH]; simpl; [reflexivity|].
        rewrite IH. destruct (rest h); reflexivity. }
      assert (He : rest e = true).
      { unfold rest. apply andb_true_iff. split; [apply on_true; eauto|].
        unfold here. destruct (member s e) eqn:Me; [apply member_done in Me; contradiction|].
        rewrite andb_false_r. reflexivity. }
      assert (G0 : g e = 0).
      { apply total_missing with (P := fun _ => false) (Q := rest) (l := events).
        - intros f _. unfold g. destruct (rest f) eqn:H'; [auto|lia].
        - discriminate.
        - apply events_all.
        - auto.
        - reflexivity.
        - rewrite T. apply total_none. reflexivity. }
      unfold g in G0. rewrite He in G0. auto. }
    unfold bytes in Z0. rewrite W in Z0. lia.
  Qed.

  (** *** Steps keep the invariant *)

  Lemma start_good : good start.
  Proof.
    constructor; unfold start, done; simpl; intros.
    - contradiction.
    - lia.
    - exfalso. assert (0 <= ph e <= last b) by (eapply within; eauto). lia.
    - contradiction.
    - rewrite total_none; [lia|]. intros e _. unfold here, member. simpl. apply andb_false_r.
    - rewrite total_none; [reflexivity|]. intros e _. unfold here, member. simpl. apply andb_false_r.
    - destruct (inhabited b 0) as (e & a & x & W & P); [lia|]. exists e, a, x. auto.
    - contradiction.
    - destruct newer; discriminate.
  Qed.

  Lemma ordered_more : forall s e z, good s -> (forall f, edge f e -> done s f) ->
    forall newer g y older, (e, z) :: trace s = newer ++ (g, y) :: older ->
    forall f, edge f g -> In f (map fst older).
  Proof.
    intros s e z G R newer g y older H f Ef. destruct newer as [|h newer]; simpl in H.
    - inversion H; subst. apply R. auto.
    - inversion H; subst. eapply ordered; eauto.
  Qed.

  Lemma done_cons : forall s e z bs f, done (State ((e, z) :: trace s) bs) f <-> e = f \/ done s f.
  Proof. intros. unfold done. simpl. tauto. Qed.

  Lemma here_cons_other : forall s e z bs b k f, f <> e ->
    here (State ((e, z) :: trace s) bs) b k f = here s b k f.
  Proof.
    intros s e z bs b k f N. unfold here. f_equal. unfold member. simpl.
    destruct (E_eq e f) as [->|]; [congruence|].
    destruct (in_dec E_eq f (map fst (trace s))); reflexivity.
  Qed.

  (** The sum of a barrier's phase after one event more. *)
  Lemma total_cons : forall s e z bs b k g, ~ done s e ->
    total E (here (State ((e, z) :: trace s) bs) b k) g events =
    total E (here s b k) g events + (if on b k e then g e else 0).
  Proof.
    intros s e z bs b k g N.
    assert (M : member s e = false).
    { destruct (member s e) eqn:M; [apply member_done in M; contradiction|reflexivity]. }
    destruct (on b k e) eqn:O.
    - apply total_add; auto.
      + unfold here. rewrite M. apply andb_false_r.
      + unfold here. rewrite O. simpl. apply member_done. apply done_cons. auto.
      + intros f Nf. symmetry. apply here_cons_other. auto.
    - rewrite Z.add_0_r. apply total_ext. intros f _.
      destruct (E_eq f e) as [->|Nf]; [|apply here_cons_other; auto].
      unfold here. rewrite O. reflexivity.
  Qed.

  (** An event that touches no barrier, or only looks at one. *)
  Lemma quiet_good : forall s e z, good s -> ~ done s e -> (forall f, edge f e -> done s f) ->
    (forall b a x, what e <> Contribute b a x) ->
    match what e with Other => True | _ => z = ph e end ->
    good (State ((e, z) :: trace s) (bars s)).
  Proof.
    intros s e z G N R NC L.
    assert (no : forall b k, on b k e = false).
    { intros b k. destruct (on b k e) eqn:O; [|reflexivity].
      apply on_true in O. destruct O as (a & x & W & _). exfalso. eapply NC; eauto. }
    constructor; simpl.
    - intros f g Ef D. apply done_cons in D. apply done_cons. destruct D as [->|D]; [auto|].
      right. eapply closed; eauto.
    - apply (range s G).
    - intros b f a x W P. apply done_cons. right. eapply past; eauto.
    - intros b f a x W D. apply done_cons in D. destruct D as [->|D]; [exfalso; eapply NC; eauto|].
      eapply present; eauto.
    - intros b. rewrite total_cons by auto. rewrite no, Z.add_0_r. apply (owed s G).
    - intros b. rewrite total_cons by auto. rewrite no, Z.add_0_r. apply (outstanding s G).
    - intros b H. destruct (missing s G b H) as (f & a & x & W & P & M). exists f, a, x.
      repeat split; auto. intros D. apply done_cons in D. destruct D as [->|D]; [|contradiction].
      eapply NC; eauto.
    - intros f y [H|H]; [inversion H; subst; auto|]. apply (landed s G). auto.
    - intros. eapply ordered_more; eauto.
  Qed.

  Lemma contribute_good : forall s e b a x, good s -> ready s e -> what e = Contribute b a x ->
    good (State ((e, phase (bars s b)) :: trace s)
                (set (bars s) b (contribute (bars s b) (count b) a x))).
  Proof.
    intros s e b a x G R W.
    pose proof (lands s G e b a x R W) as L.
    assert (Wi : 0 <= ph e <= last b) by (eapply within; eauto).
    destruct R as [N R].
    assert (In_edges : forall f, edge f e -> done s f).
    { intros f [H|(? & ? & ? & ? & _ & W' & _)]; [auto|congruence]. }
    set (s' := State ((e, phase (bars s b)) :: trace s)
                     (set (bars s) b (contribute (bars s b) (count b) a x))).
    assert (clean : forall f g, path f g -> done s' g -> done s' f).
    { intros f g P D. apply done_cons. apply done_cons in D. destruct D as [->|D].
      - right. destruct (path_requires f g b a x P W) as (r & Rq & Q).
        eapply path_or_same_closed; eauto.
      - right. eapply path_closed; eauto. }
    assert (one : on b (ph e) e = true) by (apply on_true; eauto).
    assert (arr : total E (here s' b (ph e)) arrivals events = count b - (pending (bars s b) - a)).
    { unfold s'. rewrite total_cons by auto. rewrite one. rewrite (owed s G b), L.
      unfold arrivals at 2. rewrite W. lia. }
    assert (byt : total E (here s' b (ph e)) bytes events = tx (bars s b) + x).
    { unfold s'. rewrite total_cons by auto. rewrite one. rewrite (outstanding s G b), L.
      unfold bytes at 2. rewrite W. lia. }
    assert (other : forall c k, c <> b -> on c k e = false).
    { intros c k Nc. destruct (on c k e) eqn:O; [|reflexivity].
      apply on_true in O. destruct O as (? & ? & W' & _). congruence. }
    destruct (shapes e b a x W) as [Pa Nz].
    destruct (((0 <? a) || (x <? 0)) && (pending (bars s b) - a =? 0) && (tx (bars s b) + x =? 0)) eqn:C.
    - (* the phase completes *)
      assert (SB : bars s' = set (bars s) b (Barrier (phase (bars s b) + 1) (count b) 0)).
      { unfold s', contribute. simpl. rewrite C. reflexivity. }
      apply andb_true_iff in C. destruct C as [C C2]. apply andb_true_iff in C. destruct C as [_ C1].
      apply Z.eqb_eq in C1. apply Z.eqb_eq in C2.
      assert (K : ph e < last b).
      { destruct (Z_lt_le_dec (ph e) (last b)) as [|H]; [auto|exfalso].
        assert (EQ : ph e = last b) by lia.
        assert (T : total E (here s' b (ph e)) arrivals events <= total E (on b (ph e)) arrivals events).
        { apply total_le; [intros; apply arrivals_nonneg|apply here_on]. }
        pose proof (tail b) as TB. rewrite <- EQ in TB. lia. }
      assert (all : forall f c y, what f = Contribute b c y -> ph f = ph e -> done s' f).
      { eapply (sums_complete s' b (ph e)); [lia| |lia|lia].
        intros f g ? ? ? ? _ _ _ _ P D. eapply clean; eauto. }
      assert (none : forall c k f, on b k f = true -> k = ph e + 1 -> c = b -> ~ done s' f).
      { intros c k f O -> _ D. apply on_true in O. destruct O as (d & y & Wf & Pf).
        apply done_cons in D. destruct D as [->|D]; [lia|].
        assert (ph f <= phase (bars s b)) by (eapply present; eauto). lia. }
      constructor.
      + intros f g Ef D. eapply clean; eauto. apply t_step. auto.
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|]; simpl; [left; lia|apply (range s G)].
      + intros c f d y Wf P. rewrite SB in P. unfold set in P.
        destruct (Nat.eq_dec c b) as [->|]; simpl in P.
        * destruct (Z.eq_dec (ph f) (ph e)) as [EQ|NE]; [eauto|].
          apply done_cons. right. eapply past; eauto. lia.
        * apply done_cons. right. eapply past; eauto.
      + intros c f d y Wf D. rewrite SB. unfold set. apply done_cons in D.
        destruct (Nat.eq_dec c b) as [->|Nc]; simpl.
        * destruct D as [->|D]; [lia|]. assert (ph f <= phase (bars s b)) by (eapply present; eauto). lia.
        * destruct D as [->|D]; [congruence|]. eapply present; eauto.
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|Nc]; simpl.
        * rewrite total_none; [lia|]. intros f _. destruct (here s' b (phase (bars s b) + 1) f) eqn:H; [|auto].
          exfalso. pose proof H as H'. apply here_on in H. apply andb_true_iff in H'. destruct H' as [_ H'].
          apply member_done in H'. eapply none; eauto. lia.
        * unfold s'. rewrite total_cons by auto. rewrite other, Z.add_0_r by auto. apply (owed s G).
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|Nc]; simpl.
        * rewrite total_none; [lia|]. intros f _. destruct (here s' b (phase (bars s b) + 1) f) eqn:H; [|auto].
          exfalso. pose proof H as H'. apply here_on in H. apply andb_true_iff in H'. destruct H' as [_ H'].
          apply member_done in H'. eapply none; eauto. lia.
        * unfold s'. rewrite total_cons by auto. rewrite other, Z.add_0_r by auto. apply (outstanding s G).
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|Nc]; simpl; intros H.
        * destruct (inhabited b (phase (bars s b) + 1)) as (f & d & y & Wf & Pf); [lia|].
          exists f, d, y. repeat split; auto. apply (none b (phase (bars s b) + 1)); auto; [|lia].
          apply on_true. eauto.
        * destruct (missing s G c H) as (f & d & y & Wf & Pf & M). exists f, d, y. repeat split; auto.
          intros D. apply done_cons in D. destruct D as [->|D]; [congruence|contradiction].
      + intros f z [H|H]; [inversion H; subst; rewrite W; auto|]. apply (landed s G). auto.
      + intros newer g y older T f Ef. exact (ordered_more s e _ G In_edges newer g y older T f Ef).
    - (* the phase goes on *)
      assert (SB : bars s' = set (bars s) b (Barrier (phase (bars s b)) (pending (bars s b) - a) (tx (bars s b) + x))).
      { unfold s', contribute. simpl. rewrite C. reflexivity. }
      constructor.
      + intros f g Ef D. eapply clean; eauto. apply t_step. auto.
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|]; simpl; apply (range s G).
      + intros c f d y Wf P. rewrite SB in P. unfold set in P. apply done_cons. right.
        destruct (Nat.eq_dec c b) as [->|]; simpl in P; eapply past; eauto.
      + intros c f d y Wf D. rewrite SB. unfold set. apply done_cons in D.
        destruct (Nat.eq_dec c b) as [->|Nc]; simpl.
        * destruct D as [->|D]; [lia|]. eapply present; eauto.
        * destruct D as [->|D]; [congruence|]. eapply present; eauto.
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|Nc]; simpl.
        * rewrite L, arr. lia.
        * unfold s'. rewrite total_cons by auto. rewrite other, Z.add_0_r by auto. apply (owed s G).
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|Nc]; simpl.
        * rewrite L, byt. lia.
        * unfold s'. rewrite total_cons by auto. rewrite other, Z.add_0_r by auto. apply (outstanding s G).
      + intros c. rewrite SB. unfold set. destruct (Nat.eq_dec c b) as [->|Nc]; simpl; intros H.
        * destruct (all_or_missing s' b (ph e)) as [A|(f & d & y & Wf & Pf & M)].
          -- exfalso. destruct (full b (ph e)) as [FA FX]; [lia|].
             rewrite (total_ext E _ (on b (ph e))) in arr by (intros; apply here_all; auto).
             rewrite (total_ext E _ (on b (ph e))) in byt by (intros; apply here_all; auto).
             assert (Z1 : (pending (bars s b) - a =? 0) = true) by (apply Z.eqb_eq; lia).
             assert (Z2 : (tx (bars s b) + x =? 0) = true) by (apply Z.eqb_eq; lia).
             rewrite Z1, Z2, !andb_true_r in C. apply orb_false_iff in C. destruct C as [Ca Cx].
             apply Z.ltb_ge in Ca. apply Z.ltb_ge in Cx.
             destruct (O4 e b a x W) as [Q|(f & d & y & Wf & Pf & Pd & Q)]; [lia|lia|lia|].
             assert (D : done s' f) by eauto. apply done_cons in D. destruct D as [<-|D].
             ++ rewrite W in Wf. inversion Wf. lia.
             ++ apply N. eapply path_closed; eauto.
          -- exists f, d, y. repeat split; auto. lia.
        * destruct (missing s G c H) as (f & d & y & Wf & Pf & M). exists f, d, y. repeat split; auto.
          intros D. apply done_cons in D. destruct D as [->|D]; [congruence|contradiction].
      + intros f z [H|H]; [inversion H; subst; rewrite W; auto|]. apply (landed s G). auto.
      + intros newer g y older T f Ef. exact (ordered_more s e _ G In_edges newer g y older T f Ef).
  Qed.

  Lemma wait_edges : forall s, good s -> forall w b p,
    (forall r, req r w -> done s r) -> what w = Wait b p -> phase (bars s b) = ph w + 1 ->
    forall f, edge f w -> done s f.
  Proof.
    intros s G w b p R Ww P f [H|(c & a & x & q & Wf & Ww' & Pf)]; [auto|].
    rewrite Ww in Ww'. inversion Ww'; subst. eapply past; eauto. lia.
  Qed.

  Theorem reachable_good : forall s, reachable s -> good s.
  Proof.
    intros s R. induction R as [|s t R G S]; [apply start_good|]. destruct S as [s e b a x Re W|s e b p Re W NP|s e Re W].
    - apply contribute_good; auto.
    - pose proof (sees s G e b p Re W NP) as P. destruct Re as [N Rq]. apply quiet_good; auto.
      + eapply wait_edges; eauto.
      + intros c a x C. congruence.
      + rewrite W. lia.
    - destruct Re as [N Rq]. apply quiet_good; auto.
      + intros f [H|(? & ? & ? & ? & _ & W' & _)]; [auto|congruence].
      + intros c a x C. congruence.
      + rewrite W. exact I.
  Qed.

  (** ** The theorems *)

  (** Among the events that are left one has the least rank. *)
  Lemma least_left : forall s, (exists e, ~ done s e) ->
    exists e, ~ done s e /\ forall f, edge f e -> done s f.
  Proof.
    intros s [e0 N0].
    assert (H : forall n e, (rank e <= n)%nat -> ~ done s e ->
                exists e, ~ done s e /\ forall f, edge f e -> done s f).
    { induction n as [|n IH]; intros e Rn N.
      - exists e. split; auto. intros f Ef. pose proof (ranks f e Ef). lia.
      - assert (D : forall l, (forall f, In f l -> (rank f < rank e)%nat -> done s f) \/
                              exists f, In f l /\ (rank f < rank e)%nat /\ ~ done s f).
        { induction l as [|h l IHl]; [left; simpl; tauto|].
          destruct IHl as [A|(f & I & Rf & Nf)]; [|right; exists f; simpl; auto].
          destruct (done_dec s h) as [D|D].
          - left. intros f [->|I] Rf; auto.
          - destruct (lt_dec (rank h) (rank e)) as [Lt|Ge].
            + right. exists h. simpl. auto.
            + left. intros f [->|I] Rf; [lia|auto]. }
        destruct (D events) as [A|(f & _ & Rf & Nf)].
        + exists e. split; [exact N|]. intros f Ef. apply A; auto.
        + apply (IH f); [lia|auto]. }
    apply (H (rank e0) e0); auto.
  Qed.

  (** No execution hangs: whatever was scheduled, an unfinished run has a next step. *)
  Theorem no_hang : forall s, reachable s -> (exists e, ~ done s e) -> exists t, step s t.
  Proof.
    intros s R L. pose proof (reachable_good s R) as G.
    destruct (least_left s L) as (e & N & D).
    assert (Rq : forall f, req f e -> done s f) by (intros f H; apply D; left; auto).
    assert (Re : ready s e) by (split; auto).
    destruct (what e) as [b a x|b p|] eqn:W.
    - eexists. eapply step_contribute; eauto.
    - eexists. eapply step_wait; eauto.
      destruct (means e b p W) as [M Q].
      assert (A : ph e <= phase (bars s b)) by (eapply at_least; eauto).
      assert (B : phase (bars s b) <= ph e + 1) by (eapply at_most; eauto).
      assert (C : phase (bars s b) <> ph e).
      { intros C. destruct (missing s G b) as (f & c & y & Wf & Pf & Nf); [lia|].
        apply Nf. apply D. right. exists b, c, y, p. repeat split; auto. lia. }
      assert (F : phase (bars s b) = ph e + 1) by lia.
      rewrite F, Q. intros X. pose proof (Z.mod_pos_bound (ph e) 2 eq_refl).
      rewrite Z.add_mod in X by lia. replace (1 mod 2) with 1 in X by reflexivity.
      assert (ph e mod 2 = 0 \/ ph e mod 2 = 1) as [Y|Y] by lia; rewrite Y in X; discriminate.
    - eexists. eapply step_other; eauto.
  Qed.

  (** Every contribution lands in the phase that is claimed; every wait saw the phase that it means. *)
  Theorem phases : forall s, reachable s -> forall e z, In (e, z) (trace s) ->
    match what e with Other => True | _ => z = ph e end.
  Proof. intros s R. apply (landed s (reachable_good s R)). Qed.

  (** No arrival is one too many. *)
  Theorem no_underflow : forall s, reachable s -> forall b, 0 <= pending (bars s b).
  Proof.
    intros s R b. pose proof (reachable_good s R) as G. rewrite (owed s G b).
    assert (T : total E (here s b (phase (bars s b))) arrivals events <=
                total E (on b (phase (bars s b))) arrivals events).
    { apply total_le; [intros; apply arrivals_nonneg|apply here_on]. }
    destruct (range s G b) as [[P Q]|[P Q]].
    - destruct (Z.eq_dec (phase (bars s b)) (last b)) as [EQ|NE].
      + pose proof (tail b) as TB. rewrite EQ in *. lia.
      + destruct (full b (phase (bars s b))) as [F _]; lia.
    - rewrite total_none; [pose proof (counts b); lia|].
      intros e _. destruct (here s b (phase (bars s b)) e) eqn:H; [|reflexivity].
      apply here_on in H. apply on_true in H. destruct H as (a & x & W & _).
      exfalso. assert (0 <= ph e <= last b) by (eapply within; eauto). lia.
  Qed.

  (** An event is older than another if the trace has it below. *)
  Definition older_than (s : state) (e f : E) : Prop :=
    exists newer z older, trace s = newer ++ (f, z) :: older /\ In e (map fst older).

  (** A path orders its ends in every execution: the first is performed before the second. So two accesses
      that a path connects do not race. *)
  Theorem path_orders : forall s, reachable s -> forall e f, path e f -> done s f -> older_than s e f.
  Proof.
    intros s R e f P D. pose proof (reachable_good s R) as G.
    apply clos_trans_tn1 in P. revert D.
    assert (split : forall g, done s g -> exists newer z older, trace s = newer ++ (g, z) :: older).
    { intros g D. unfold done in D. apply in_map_iff in D. destruct D as ([g' z] & EQ & I). simpl in EQ. subst.
      apply in_split in I. destruct I as (n & o & H). eauto. }
    induction P as [g H|g h H P IH]; intros D; destruct (split _ D) as (newer & z & older & T).
    - exists newer, z, older. split; auto. eapply ordered; eauto.
    - exists newer, z, older. split; auto.
      assert (I : In g (map fst older)) by (eapply ordered; eauto).
      assert (Dg : done s g) by (eapply closed; eauto).
      destruct (IH Dg) as (newer' & z' & older' & T' & I').
      (* e is below some occurrence of g; every occurrence of g below h has e below it *)
      apply in_map_iff in I. destruct I as ([g' y] & EQ & I). simpl in EQ. subst g'.
      apply in_split in I. destruct I as (n2 & o2 & H2).
      assert (S : trace s = (newer ++ (h, z) :: n2) ++ (g, y) :: o2).
      { rewrite T, H2. rewrite <- app_assoc. reflexivity. }
      assert (Below : In e (map fst o2)).
      { clear IH I' T' newer' z' older'.
        assert (Q : forall e g, clos_trans_n1 E edge e g ->
                    forall n y o, trace s = n ++ (g, y) :: o -> In e (map fst o)).
        { clear - G. intros e g Pq. induction Pq as [g H|g h H P IH]; intros n y o T.
          - eapply ordered; eauto.
          - assert (I : In g (map fst o)) by (eapply ordered; eauto).
            apply in_map_iff in I. destruct I as ([g' y'] & EQ & I). simpl in EQ. subst g'.
            apply in_split in I. destruct I as (n3 & o3 & H3).
            assert (In e (map fst o3)).
            { apply (IH (n ++ (h, y) :: n3) y'). rewrite T, H3. rewrite <- app_assoc. reflexivity. }
            rewrite H3, map_app. apply in_or_app. right. simpl. auto. }
        eapply Q; eauto. }
      rewrite H2, map_app. apply in_or_app. right. simpl. auto.
  Qed.

  (** Executions are finite: no event is performed twice. *)
  Theorem once : forall s, reachable s -> NoDup (map fst (trace s)).
  Proof.
    intros s R. induction R as [|s t R IH S]; [constructor|].
    destruct S as [s e b a x [N _] _|s e b p [N _] _ _|s e [N _] _]; simpl; constructor; auto.
  Qed.

  Theorem bounded : forall s, reachable s -> (length (trace s) <= length events)%nat.
  Proof.
    intros s R. rewrite <- (map_length fst). apply NoDup_incl_length; [apply once; auto|].
    intros e _. apply events_all.
  Qed.
End Protocol.

Print Assumptions no_hang.
Print Assumptions path_orders.
